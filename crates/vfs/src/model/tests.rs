use super::*;
use crate::suite;

#[test]
fn the_model_keeps_every_rule_of_the_suite() {
    suite::run_all(&|| Arc::new(Model::default()));
}

#[test]
fn a_full_quota_refuses_writes_and_allows_removal() {
    let model = Model::new(&ModelOptions { quota_bytes: Some(8192), ..ModelOptions::default() });
    let root = Cred::root();
    let ctx = OpCtx::of(&root);
    let file = model.create(ctx, model.root(), b"f", &CreateHow::Guarded(SetAttr::default())).result.unwrap().object;
    let write =
        |offset| model.write(ctx, file, offset, Bytes::from_static(&[1; 4096]), Stability::FileSync).result.map(|_| ());
    assert_eq!(write(0), Ok(()));
    assert_eq!(write(4096), Ok(()));
    assert_eq!(write(8192), Err(FsError::Quota));
    assert_eq!(write(0), Ok(()), "overwriting takes no more space");
    assert_eq!(model.statfs().unwrap().available_bytes, 0);
    assert_eq!(model.remove(ctx, model.root(), b"f").result, Ok(()));
    assert_eq!(model.statfs().unwrap().available_bytes, 8192);
}

#[test]
fn a_read_only_model_changes_nothing() {
    let model = Model::default();
    model.set_read_only(true);
    let root = Cred::root();
    let ctx = OpCtx::of(&root);
    assert_eq!(model.mkdir(ctx, model.root(), b"d", &SetAttr::default()).result, Err(FsError::ReadOnly));
    assert!(model.readdir(&root, model.root(), 0, 10, false).unwrap().eof);
}
