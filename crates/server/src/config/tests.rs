use clap::Parser as _;

use super::*;
use crate::cli::Cli;

fn parse(text: &str) -> Result<Config, String> {
    Config::parse(text, Path::new("tally.toml")).map_err(|error| error.to_string())
}

/// The documented file with its settings (not its prose) taken out of their comments.
fn uncommented() -> String {
    let is_setting = |line: &str| {
        let key = line.split('=').next().unwrap_or("").trim();
        line.starts_with('[')
            || (line.contains(" = ") && key.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_'))
    };
    let line = |line: &str| match line.strip_prefix("# ") {
        Some(setting) if is_setting(setting) => format!("{setting}\n"),
        _ => String::new(),
    };
    DOCUMENTED.lines().map(line).collect()
}

#[test]
fn what_is_empty_is_told_with_its_line() {
    for (text, told) in [
        ("port = 1\nlisten = []\n", "line 2: `listen` is empty"),
        ("socket = \"\"\n", "line 1: `socket` is empty: write a path"),
        ("smb_conf = \"\"\n", "line 1: `smb_conf` is empty: write a path"),
        ("data_dir = \"\"\n", "line 1: `data_dir` is empty"),
    ] {
        let error = parse(text).unwrap_err();
        assert!(error.contains(told), "{error}");
    }
}

#[test]
fn the_documented_file_says_the_defaults_and_every_key() {
    assert_eq!(parse(DOCUMENTED).unwrap(), Config::default());
    let text = uncommented();
    let spelled_out = parse(&text).unwrap();
    let defaults = Config {
        socket: Some("./tally-data/tally.sock".into()),
        smb_conf: Some("./tally-data/smb.conf".into()),
        port: Some(2049),
        nfs4_domain: Some("example.org".parse().unwrap()),
        host_id: Some("nas-1".into()),
        http: HttpConfig { listen: Some("127.0.0.1:12050".parse().unwrap()), host_names: Vec::new() },
        exports: vec![ExportRule {
            dataset: "tank/home".into(),
            rules: "192.168.1.0/24(rw) 10.0.0.7(ro,all_squash)".into(),
        }],
        ..Config::default()
    };
    assert_eq!(spelled_out, defaults);
    let keys = |text: &str| toml::from_str::<toml::Table>(text).unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&text), keys(&toml::to_string(&defaults).unwrap()), "a key is not documented");
}

#[test]
fn what_is_wrong_is_told_with_its_line() {
    let cases = [
        ("port = 2049\nprot = 1\n", 2, "unknown field `prot`"),
        ("[log]\nformat = \"text\"\ncolour = true\n", 3, "unknown field `colour`"),
        ("\n\nport = 70000\n", 3, "70000"),
        ("cache = \"lots\"\n", 1, "'lots' is not a size"),
        ("port = 1\ncache = \"95%\"\n", 2, "percentage from 1% to 90%"),
        ("listen = [\"localhost\"]\n", 1, "invalid IP address"),
        ("[log]\nformat = \"xml\"\n", 2, "unknown variant `xml`"),
        ("[http]\nlisten = \"12050\"\n", 2, "'12050' is not like 127.0.0.1:12050"),
        ("nfs4 = true\nlease_time = 4\n", 2, "a lease of NFSv4 is whole seconds, from 5 to 3600, and not '4'"),
        ("lease_time = 3601\n", 1, "from 5 to 3600, and not '3601'"),
        ("lease_time = -5\n", 1, "from 5 to 3600, and not '-5'"),
        ("lease_time = 7.5\n", 1, "from 5 to 3600, and not '7.5'"),
        ("lease_time = \"90s\"\n", 1, "from 5 to 3600, and not"),
        ("nfs4_domain = \"\"\n", 1, "as example.org, and not ''"),
        ("nfs4_domain = \"a@b\"\n", 1, "as example.org, and not 'a@b'"),
        ("nfs4_domain = \"a..b\"\n", 1, "with dots between"),
        ("nfs4_domain = \"ä.org\"\n", 1, "and not 'ä.org'"),
        ("[http]\nport = 1\n", 2, "unknown field `port`"),
        ("[[export]]\ndataset = \"a\"\n", 1, "missing field `rules`"),
        ("[[export]]\ndataset = \"/\"\nrules = \"off\"\n", 1, "names no dataset"),
        (
            "[[export]]\ndataset = \"tank/a\"\nrules = \"off\"\n[[export]]\ndataset = \"/tank/a/\"\nrules = \"on\"\n",
            1,
            "two [[export]] tables are for dataset 'tank/a'",
        ),
        ("port = \n", 1, ""),
    ];
    for (text, line, expected) in cases {
        let error = parse(text).unwrap_err();
        assert!(error.starts_with(&format!("tally.toml, line {line}: ")) && error.contains(expected), "{text}{error}");
    }
}

#[test]
fn version_4_is_spoken_unless_somebody_says_no() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("tally.toml");
    let cases = [
        ("", false, false, true),
        ("", false, true, false),
        ("nfs4 = false", false, false, false),
        ("nfs4 = false", true, false, true),
        ("nfs4 = true", false, true, false),
        ("nfs4 = true", true, false, true),
    ];
    for (text, nfs4, no_nfs4, expected) in cases {
        fs::write(&file, text).unwrap();
        let args = ServeArgs { config: Some(file.clone()), nfs4, no_nfs4, ..ServeArgs::default() };
        assert_eq!(Config::load(&args).unwrap().nfs4, expected, "{text:?}, {nfs4}, {no_nfs4}");
    }
}

#[test]
fn flags_override_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("tally.toml");
    fs::write(&file, "port = 1000\ndata_dir = \"/from/file\"\ntxg_interval_seconds = 1\n").unwrap();
    let only_file = ServeArgs { config: Some(file), ..ServeArgs::default() };
    let config = Config::load(&only_file).unwrap();
    assert_eq!((config.port, config.socket()), (Some(1000), "/from/file/tally.sock".into()));
    let flags = ServeArgs {
        port: Some(7),
        data_dir: Some("/from/flag".into()),
        listen: vec!["0.0.0.0".parse().unwrap()],
        http: Some(HttpListen::Off),
        ..only_file
    };
    let config = Config::load(&flags).unwrap();
    assert_eq!((config.port, config.data_dir.to_str()), (Some(7), Some("/from/flag")));
    assert_eq!((config.listen.len(), config.txg_interval_seconds), (1, 1));
    assert_eq!(config.http.listen, Some(HttpListen::Off));
    assert_eq!(config.socket(), Path::new("/from/flag/tally.sock"));
    for words in [["tally", "--socket", "/from/words", "serve"], ["tally", "serve", "--socket", "/from/words"]] {
        let serve = Cli::try_parse_from(words).unwrap().to_serve().unwrap();
        assert_eq!(Config::load(&serve).unwrap().socket(), Path::new("/from/words"));
    }
    let missing = ServeArgs { config: Some("/no/such/file".into()), ..ServeArgs::default() };
    assert!(Config::load(&missing).unwrap_err().to_string().contains("/no/such/file"));
}

#[test]
fn a_lease_is_of_the_flag_of_the_file_or_ninety_seconds() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("tally.toml");
    fs::write(&file, "lease_time = 15\n").unwrap();
    let seconds = |args: &ServeArgs| Config::load(args).unwrap().lease_time.time().as_secs();
    let only_file = ServeArgs { config: Some(file), ..ServeArgs::default() };
    let both = ServeArgs { lease_time: Some("5".parse().unwrap()), ..only_file.clone() };
    assert_eq!([&ServeArgs::default(), &only_file, &both].map(seconds), [90, 15, 5]);
    for wrong in ["4", "3601", "", "5s", "+5", "5.0", "99999999999999999999"] {
        assert!(wrong.parse::<LeaseTime>().is_err(), "{wrong}");
    }
}

#[test]
fn a_domain_is_of_the_flag_or_of_the_file_or_there_is_none() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("tally.toml");
    fs::write(&file, "nfs4_domain = \"of.the.file\"\n").unwrap();
    let domain = |args: &ServeArgs| Config::load(args).unwrap().nfs4_domain.map(|domain| domain.as_str().to_owned());
    let only_file = ServeArgs { config: Some(file), ..ServeArgs::default() };
    let both = ServeArgs { nfs4_domain: Some("of-the.flag".parse().unwrap()), ..only_file.clone() };
    let expected = [None, Some("of.the.file".to_owned()), Some("of-the.flag".to_owned())];
    assert_eq!([&ServeArgs::default(), &only_file, &both].map(domain), expected);
    for wrong in ["", ".", "example.org.", "-.org", "a.-b", "a b", "a_b", "nul\0", &"a".repeat(254)] {
        assert!(wrong.parse::<Domain>().is_err(), "{wrong}");
    }
}

#[test]
fn memory_is_a_size_or_a_share() {
    assert_eq!("25%".parse::<Memory>().unwrap().of(8 << 30), (8 << 30) / 100 * 25);
    assert_eq!("64M".parse::<Memory>().unwrap().of(1), 64 << 20);
}

/// The path that is printed for mounting, or a slash too many: the table was for no dataset then, and what it was to close
/// stayed open without a word.
#[test]
fn an_export_table_may_name_the_path() {
    for name in ["tank/a", "/tank/a", "tank/a/", "//tank//a//"] {
        let text = format!("[[export]]\ndataset = \"{name}\"\nrules = \"off\"\n");
        let rule = parse(&text).unwrap().exports.remove(0);
        assert_eq!(rule.dataset, "tank/a", "{name}");
        assert!(rule.covers("tank/a") && rule.covers("tank/a/b") && !rule.covers("tank/ab") && !rule.covers("tank"));
    }
}

/// It was a boolean, and such files are read.
#[test]
fn how_clients_find_the_port_is_a_word_or_as_it_was() {
    let cases = [
        ("", Rpcbind::Auto),
        ("rpcbind = true", Rpcbind::Register),
        ("rpcbind = false", Rpcbind::Off),
        ("rpcbind = \"serve\"", Rpcbind::Serve),
        ("rpcbind = \"off\"", Rpcbind::Off),
        ("rpcbind = \"register\"", Rpcbind::Register),
        ("rpcbind = \"auto\"", Rpcbind::Auto),
    ];
    for (text, expected) in cases {
        assert_eq!(parse(text).unwrap().rpcbind, expected, "{text}");
    }
    for wrong in ["rpcbind = \"yes\"", "rpcbind = 111"] {
        let error = parse(wrong).unwrap_err();
        assert!(error.contains("auto") && error.contains("off"), "{error}");
    }
    let flag = ServeArgs { rpcbind: Some("off".parse().unwrap()), ..ServeArgs::default() };
    assert_eq!(Config::load(&flag).unwrap().rpcbind, Rpcbind::Off);
}
