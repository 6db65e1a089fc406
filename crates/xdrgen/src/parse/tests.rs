use super::{Definitions, Field, Shape, Type, UNBOUNDED, Union};

fn read(text: &str) -> anyhow::Result<Definitions> {
    let mut definitions = Definitions::default();
    definitions.read(text)?;
    Ok(definitions)
}

fn field(of: &str, name: &str, shape: Shape) -> Field {
    Field { name: name.into(), of: of.into(), shape }
}

#[test]
fn every_kind_of_declaration_is_read() {
    let text = "const SIZE = 0x10; struct s { unsigned hyper a; unsigned int b; opaque c[SIZE]; opaque d<>; s *next; string e<3>; };";
    let definitions = read(text).unwrap();
    let fields = vec![
        field("uint64_t", "a", Shape::One),
        field("uint32_t", "b", Shape::One),
        field("opaque", "c", Shape::Fixed(16)),
        field("opaque", "d", Shape::Upto(UNBOUNDED)),
        field("s", "next", Shape::Optional),
        field("string", "e", Shape::Upto(3)),
    ];
    assert_eq!(definitions.types, [("s".into(), Type::Struct(fields))]);
    assert_eq!(definitions.constants, [("SIZE".into(), 16)]);
}

#[test]
fn several_labels_have_one_arm_each() {
    let text = "union u switch (nfs_ftype4 type) { case A: case B: specdata4 data; case C: void; default: void; };";
    let data = Some(field("specdata4", "data", Shape::One));
    let arms = vec![("A".into(), data.clone()), ("B".into(), data), ("C".into(), None)];
    let union = Union { on: "nfs_ftype4".into(), arms, default: Some(None) };
    assert_eq!(read(text).unwrap().types, [("u".into(), Type::Union(union))]);
}

/// RFC 7863 has two programs, which hold nothing that goes over the wire.
#[test]
fn programs_are_passed_over() {
    let text = "program P { version V { void N(void) = 0; } = 4; } = 100003; typedef int t;";
    assert_eq!(read(text).unwrap().types.len(), 1);
}

#[test]
fn what_is_there_is_added_to_and_nothing_is_defined_twice() {
    let text = "enum e { A = 1 }; enum e { B = 2, }; union u switch (e a) { case A: void; }; union u switch (e a) { case B: t b; };";
    let definitions = read(text).unwrap();
    assert_eq!(definitions.types[0].1, Type::Enum(vec![("A".into(), 1), ("B".into(), 2)]));
    assert!(matches!(&definitions.types[1].1, Type::Union(union) if union.arms.len() == 2));
    assert!(read("typedef int t; typedef int t;").is_err());
}

#[test]
fn what_is_wrong_is_told_with_its_line() {
    let told = format!("{:#}", read("typedef int a;\n\nstruct s { int a }").unwrap_err());
    assert_eq!(told, "line 3, `struct`: `}` stands where `;` should");
    assert!(format!("{:#}", read("const A = B;").unwrap_err()).contains("`B` is no number"));
}
