//! What is written.

use std::fmt::Write as _;

use anyhow::{Context, Result, bail, ensure};

use crate::names::{camel, snake};
use crate::parse::{Definitions, Field, Shape, Type, UNBOUNDED, Union};

/// What XDR's own types are.
const BASE: [(&str, &str); 9] = [
    ("bool", "bool"),
    ("int", "i32"),
    ("int32_t", "i32"),
    ("uint32_t", "u32"),
    ("hyper", "i64"),
    ("int64_t", "i64"),
    ("uint64_t", "u64"),
    ("opaque", "u8"),
    ("string", "u8"),
];

const USES: &str = "use crate::macros::{xdr_enum, xdr_struct, xdr_union};\nuse crate::{Kind, List, Opaque};";

/// The module of all that is defined, in the order of the texts; the head says where they come from.
pub fn write(definitions: &Definitions, head: &str) -> Result<String> {
    let mut out = format!("{head}\n{USES}\n\n");
    for (name, number) in &definitions.constants {
        let width = if u32::try_from(*number).is_ok() { "u32" } else { "u64" };
        // Attributes are known by their numbers, flags by their bits.
        let digits = if *number < 256 { number.to_string() } else { format!("{number:#x}") };
        writeln!(out, "pub const {name}: {width} = {digits};")?;
    }
    for (name, defined) in &definitions.types {
        let written = definitions.written(name, defined).with_context(|| format!("`{name}`"))?;
        write!(out, "\n{written}")?;
    }
    writeln!(out, "\n/// All of them but other names.\npub const KINDS: &[Kind] = &[")?;
    for (name, _) in definitions.types.iter().filter(|(_, defined)| !matches!(defined, Type::Alias(_))) {
        writeln!(out, "    Kind::of::<{}>(\"{name}\"),", camel(name))?;
    }
    out.push_str("];\n");
    Ok(out)
}

impl Definitions {
    /// Adds a union of all constants that begin like this and are, in small letters, the names of types: NFSv4's attributes
    /// are a bitmap of numbers, each of which stands for the type that is called like it.
    pub fn gather(&mut self, union: &str, prefix: &str) {
        let of_type = |(constant, _): &(String, u64)| {
            let name = constant.to_ascii_lowercase();
            let is_type = constant.starts_with(prefix) && self.types.iter().any(|(other, _)| *other == name);
            is_type.then(|| (constant.clone(), Some(Field { name: "value".into(), of: name, shape: Shape::One })))
        };
        let arms = self.constants.iter().filter_map(of_type).collect();
        self.types.push((union.into(), Type::Union(Union { on: "uint32_t".into(), arms, default: None })));
    }

    fn written(&self, name: &str, defined: &Type) -> Result<String> {
        let title = camel(name);
        let mut out = String::new();
        match defined {
            Type::Alias(field) => writeln!(out, "pub type {title} = {};", self.type_of(field)?)?,
            Type::Enum(members) => {
                writeln!(out, "xdr_enum! {{ {title} {{")?;
                for (member, number) in members {
                    writeln!(out, "    {} = {number},", camel(member))?;
                }
                out.push_str("} }\n");
            }
            Type::Struct(fields) => {
                writeln!(out, "xdr_struct! {{ {title} {{")?;
                for field in fields {
                    writeln!(out, "    {}: {},", snake(&field.name), self.type_of(field)?)?;
                }
                out.push_str("} }\n");
            }
            Type::Union(union) => {
                writeln!(out, "xdr_union! {{ {title} on {} {{", self.named(&union.on)?)?;
                for (label, field) in &union.arms {
                    let value = self.label(union, label)?;
                    writeln!(out, "    [{value}] => {}{},", camel(label), self.payload(field.as_ref())?)?;
                }
                match &union.default {
                    Some(field) => writeln!(out, "}} Default{} }}", self.payload(field.as_ref())?)?,
                    None => out.push_str("} }\n"),
                }
            }
        }
        Ok(out)
    }

    fn payload(&self, field: Option<&Field>) -> Result<String> {
        field.map_or(Ok(String::new()), |field| Ok(format!("({}: {})", snake(&field.name), self.type_of(field)?)))
    }

    /// What a union's label is in Rust: a member of the enumeration that it switches on, a boolean, or a constant.
    fn label(&self, union: &Union, label: &str) -> Result<String> {
        if union.on == "bool" {
            return Ok(label.to_ascii_lowercase());
        }
        match self.find(&union.on) {
            Some(Type::Enum(members)) => {
                ensure!(members.iter().any(|(member, _)| member == label), "{} has no {label}", union.on);
                Ok(format!("{}::{}", camel(&union.on), camel(label)))
            }
            _ => {
                ensure!(self.constants.iter().any(|(constant, _)| constant == label), "{label} is no constant");
                Ok(label.to_owned())
            }
        }
    }

    fn find(&self, name: &str) -> Option<&Type> {
        self.types.iter().find(|(other, _)| other == name).map(|(_, found)| found)
    }

    fn named(&self, name: &str) -> Result<String> {
        if let Some((_, rust)) = BASE.iter().find(|(base, _)| *base == name) {
            return Ok((*rust).to_owned());
        }
        self.find(name).map(|_| camel(name)).with_context(|| format!("nothing says what `{name}` is"))
    }

    fn type_of(&self, field: &Field) -> Result<String> {
        let of = self.named(&field.of)?;
        let bytes = ["opaque", "string"].contains(&field.of.as_str());
        let bound = |bound: u64| if bound == UNBOUNDED { "{ u32::MAX }".into() } else { bound.to_string() };
        Ok(match field.shape {
            Shape::One if bytes => bail!("`{}` is opaque and has no length", field.name),
            Shape::One => of,
            Shape::Optional => format!("Option<Box<{of}>>"),
            Shape::Fixed(count) if bytes => format!("[u8; {count}]"),
            // The protocols that we speak have none.
            Shape::Fixed(_) => bail!("`{}` is an array of a fixed length", field.name),
            Shape::Upto(most) if bytes => format!("Opaque<{}>", bound(most)),
            Shape::Upto(most) => format!("List<{of}, {}>", bound(most)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::write;
    use crate::parse::Definitions;

    fn written(text: &str) -> anyhow::Result<String> {
        let mut definitions = Definitions::default();
        definitions.read(text)?;
        definitions.gather("values", "A_");
        let all = write(&definitions, "// head")?;
        Ok(all.split_once("Opaque};\n\n").expect("it begins so").1.to_owned())
    }

    #[test]
    fn each_kind_of_type_is_a_line_that_reads_like_its_own() {
        let text = "const A_ONE = 1; const HUGE = 0x1ffffffff; typedef opaque a_one<9>; enum how4 { NOT4 = 0, SO4 = 1 };
            struct pair { how4 type; pair *next; a_one both<>; }; union u4 switch (how4 h) { case SO4: pair p; default: void; };
            union b switch (bool f) { case TRUE: opaque x[3]; case FALSE: void; };";
        let expected = "pub const A_ONE: u32 = 1;
pub const HUGE: u64 = 0x1ffffffff;

pub type AOne = Opaque<9>;

xdr_enum! { How4 {
    Not4 = 0,
    So4 = 1,
} }

xdr_struct! { Pair {
    r#type: How4,
    next: Option<Box<Pair>>,
    both: List<AOne, { u32::MAX }>,
} }

xdr_union! { U4 on How4 {
    [How4::So4] => So4(p: Pair),
} Default }

xdr_union! { B on bool {
    [true] => True(x: [u8; 3]),
    [false] => False,
} }

xdr_union! { Values on u32 {
    [A_ONE] => AOne(value: AOne),
} }

/// All of them but other names.
pub const KINDS: &[Kind] = &[
    Kind::of::<How4>(\"how4\"),
    Kind::of::<Pair>(\"pair\"),
    Kind::of::<U4>(\"u4\"),
    Kind::of::<B>(\"b\"),
    Kind::of::<Values>(\"values\"),
];
";
        assert_eq!(written(text).unwrap(), expected);
    }

    #[test]
    fn what_is_not_defined_is_told() {
        for text in [
            "typedef nothing t;",
            "typedef opaque t;",
            "typedef int t[3];",
            "enum e { A = 1 }; union u switch (e a) { case B: void; };",
            "union u switch (unsigned int a) { case B: void; };",
        ] {
            assert!(written(text).is_err(), "{text}");
        }
    }
}
