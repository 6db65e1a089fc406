use super::*;

#[test]
fn at_home() {
    let addresses: Vec<IpAddr> = vec!["127.0.0.1".parse().unwrap(), "::1".parse().unwrap()];
    let paths = ["/tank".to_owned()];
    let announcement = Announcement {
        paths: &paths,
        absent: &[],
        addresses: &addresses,
        port: 12049,
        http: Some("127.0.0.1:12050".parse().unwrap()),
        other_hosts: false,
        host_name: "box",
        nfs4: true,
    };
    let expected = "Serving NFSv4 and NFSv3 on 127.0.0.1 and ::1, port 12049.

/tank
  Linux   sudo mount -t nfs -o vers=4.2,port=12049 127.0.0.1:/tank /mnt
  NFSv3   sudo mount -t nfs -o vers=3,proto=tcp,port=12049,mountport=12049,mountproto=tcp,nolock,hard 127.0.0.1:/tank /mnt
  libnfs  nfs-ls 'nfs://127.0.0.1/tank?nfsport=12049&mountport=12049'

Dashboard: http://127.0.0.1:12050/
";
    assert_eq!(announcement.text(), expected);
    let text = Announcement { port: 2049, ..announcement }.text();
    assert!(text.contains("  Linux   sudo mount -t nfs -o vers=4.2 127.0.0.1:/tank /mnt\n"), "{text}");
}

#[test]
fn without_version_4() {
    let addresses: Vec<IpAddr> = vec!["127.0.0.1".parse().unwrap()];
    let paths = ["/tank".to_owned()];
    let (absent, http, other_hosts, host_name) = (&[][..], None, false, "box");
    let (paths, addresses, port, nfs4) = (&paths[..], &addresses[..], 12049, false);
    let text = Announcement { paths, absent, addresses, port, http, other_hosts, host_name, nfs4 }.text();
    assert!(text.starts_with("Serving NFSv3 on 127.0.0.1, port 12049.\n"), "{text}");
    assert!(text.contains("/tank\n  Linux   sudo mount -t nfs -o vers=3,") && !text.contains("vers=4"), "{text}");
}

#[test]
fn for_others() {
    let addresses: Vec<IpAddr> = vec!["::".parse().unwrap(), "0.0.0.0".parse().unwrap()];
    let paths: Vec<String> = (0..6).map(|index| format!("/tank/{index}")).collect();
    let text = Announcement {
        paths: &paths,
        absent: &[],
        addresses: &addresses,
        port: 2049,
        http: None,
        other_hosts: true,
        host_name: "box",
        nfs4: true,
    }
    .text();
    assert!(text.contains("hard,resvport box:/tank/3 ~/mnt") && !text.contains("/tank/4"), "{text}");
    assert!(
        text.contains("127.0.0.1:/tank/0") && text.ends_with("and 2 more: `tally dataset get sharenfs`\n"),
        "{text}"
    );
}
