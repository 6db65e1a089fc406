//! Which trees are explained by how many steps.

use super::*;

fn members() -> Vec<Member> {
    let folder = Member { path: "d".into(), mode: 0o755, owner: (0, 0), mtime: 7, content: None };
    let file = |path: &str, byte| Member {
        path: path.into(),
        mode: 0o640,
        owner: (1000, 2000),
        mtime: 5,
        content: Some(vec![byte; 3]),
    };
    vec![folder, file("d/a", b'a'), file("d/b", b'b')]
}

fn object(content: Option<&[u8]>, mode: u32, owner: (u32, u32), mtime: u32) -> Object {
    Object { content: content.map(<[u8]>::to_vec), mode, owner, mtime: (mtime, 0) }
}

/// The tree after a number of steps, as a server may show it: 99 stands for a time that nobody knows.
fn tree(steps: usize) -> Tree {
    let mut tree = Tree::new();
    let folder = object(None, 0o755, (0, 0), if steps >= 14 { 7 } else { 99 });
    tree.extend((steps >= 1).then(|| ("d".to_owned(), folder)));
    for (index, path) in ["d/a", "d/b"].into_iter().enumerate() {
        let done = steps.saturating_sub(1 + 6 * index);
        let whole: &[u8] = if index == 0 { b"aaa" } else { b"bbb" };
        let file = object(
            Some(if done >= 3 { whole } else { b"" }),
            [0, 0o600, 0o640][usize::from(done >= 2) + usize::from(done >= 6)],
            if done >= 5 { (1000, 2000) } else { (0, 0) },
            if done >= 4 { 5 } else { 99 },
        );
        tree.extend((done >= 1).then(|| (path.to_owned(), file)));
    }
    tree
}

#[test]
fn each_tree_is_explained_by_its_steps_alone() {
    let members = members();
    let steps = Steps::new(&members);
    assert_eq!(steps.count(), 14);
    for count in 0..=14 {
        // Nobody knows mode and time of a file before they are set, so what comes with them passes for what they were.
        let least = if matches!(count, 3 | 5 | 9 | 11 | 14) { count - 1 } else { count };
        assert_eq!(steps.explain(&tree(count), 0, 14), Ok(least), "{count} steps");
        assert_eq!(steps.explain(&tree(count), count, count), Ok(count), "{count} steps");
        if count < 14 {
            assert!(steps.explain(&tree(count), count + 1, 14).is_err(), "{count} steps, and more were answered");
        }
        if least > 0 {
            assert!(steps.explain(&tree(count), 0, least - 1).is_err(), "{count} steps, and fewer were asked for");
        }
    }
}

#[test]
fn every_difference_is_told() {
    let members = members();
    let steps = Steps::new(&members);
    let told = |change: &dyn Fn(&mut Tree), expected: &str| {
        let mut tree = tree(14);
        change(&mut tree);
        let error = steps.explain(&tree, 14, 14).unwrap_err();
        assert!(error.contains(expected), "{error} instead of {expected}");
    };
    fn a(tree: &mut Tree) -> &mut Object {
        tree.get_mut("d/a").unwrap()
    }
    told(&|tree| drop(tree.remove("d/b")), "d/b is missing");
    told(&|tree| drop(tree.insert("x".into(), object(None, 0, (0, 0), 0))), "x should not be there");
    told(&|tree| a(tree).content = Some(b"aba".to_vec()), "d/a has other content from byte 1 on");
    told(&|tree| a(tree).content = Some(b"aa".to_vec()), "d/a has size Some(2) instead of Some(3)");
    told(&|tree| a(tree).content = None, "d/a has size None");
    told(&|tree| a(tree).mode = 0o600, "d/a has mode 0600 instead of 0640");
    told(&|tree| a(tree).owner = (1000, 0), "d/a has owner");
    told(&|tree| a(tree).mtime = (5, 1), "d/a has mtime");
    told(&|tree| tree.get_mut("d").unwrap().mtime = (8, 0), "d has mtime");
}
