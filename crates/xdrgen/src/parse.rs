//! Definitions of a `.x`: constants, enumerations, structs, unions, and other names of types. Of programs and their procedures
//! nothing is taken.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};

use crate::tokens::{Token, tokens};

/// What one or several texts define.
#[derive(Debug, Default)]
pub struct Definitions {
    pub(crate) constants: Vec<(String, u64)>,
    pub(crate) types: Vec<(String, Type)>,
    /// All that has a number: constants and members of enumerations.
    numbers: BTreeMap<String, u64>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Type {
    Alias(Field),
    Enum(Vec<(String, u64)>),
    Struct(Vec<Field>),
    Union(Union),
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Union {
    pub(crate) on: String,
    /// Labels with what follows them; `None` is `void`.
    pub(crate) arms: Vec<(String, Option<Field>)>,
    /// What follows all other values, if these are allowed.
    pub(crate) default: Option<Option<Field>>,
}

/// A name, its type, and how many there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) of: String,
    pub(crate) shape: Shape,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    One,
    Optional,
    Fixed(u64),
    /// At most as many.
    Upto(u64),
}

/// The longest that a length can say.
pub(crate) const UNBOUNDED: u64 = u32::MAX as u64;

impl Definitions {
    /// Takes in what a text defines. An enumeration or a union that is there gets what is new.
    pub fn read(&mut self, text: &str) -> Result<()> {
        let tokens = tokens(text);
        let mut reader = Reader { tokens: &tokens, numbers: &mut self.numbers };
        while let Some(word) = reader.peek() {
            let line = reader.tokens[0].line;
            let word = word.to_owned();
            let definition = reader.definition(&word).with_context(|| format!("line {line}, `{word}`"))?;
            match definition {
                Defined::Nothing => {}
                Defined::Constant(name, number) => self.constants.push((name, number)),
                Defined::Type(name, defined) => merge(&mut self.types, name, defined)?,
            }
        }
        Ok(())
    }
}

/// Adds a type, or what is new to one that is there.
fn merge(types: &mut Vec<(String, Type)>, name: String, defined: Type) -> Result<()> {
    let there = types.iter_mut().find(|(other, _)| *other == name).map(|(_, there)| there);
    match (there, defined) {
        (None, defined) => types.push((name, defined)),
        (Some(Type::Enum(members)), Type::Enum(more)) => members.extend(more),
        (Some(Type::Union(union)), Type::Union(more)) if union.on == more.on && more.default.is_none() => {
            union.arms.extend(more.arms);
        }
        _ => bail!("{name} is defined twice"),
    }
    Ok(())
}

enum Defined {
    Nothing,
    Constant(String, u64),
    Type(String, Type),
}

struct Reader<'a> {
    tokens: &'a [Token],
    numbers: &'a mut BTreeMap<String, u64>,
}

impl Reader<'_> {
    fn peek(&self) -> Option<&str> {
        self.tokens.first().map(|token| token.text.as_str())
    }

    fn next(&mut self) -> Result<String> {
        let (first, rest) = self.tokens.split_first().context("the text ends within a definition")?;
        self.tokens = rest;
        Ok(first.text.clone())
    }

    /// Takes this word if it is the next.
    fn takes(&mut self, word: &str) -> bool {
        let is_next = self.peek() == Some(word);
        if is_next {
            self.tokens = &self.tokens[1..];
        }
        is_next
    }

    fn expect(&mut self, word: &str) -> Result<()> {
        let next = self.next()?;
        ensure!(next == word, "`{next}` stands where `{word}` should");
        Ok(())
    }

    fn definition(&mut self, word: &str) -> Result<Defined> {
        self.next()?;
        let defined = match word {
            "const" => {
                let name = self.next()?;
                self.expect("=")?;
                let number = self.number()?;
                self.numbers.insert(name.clone(), number);
                Defined::Constant(name, number)
            }
            "typedef" => {
                let field = self.field()?.context("a name for nothing")?;
                Defined::Type(field.name.clone(), Type::Alias(field))
            }
            "enum" => Defined::Type(self.next()?, Type::Enum(self.members()?)),
            "struct" => Defined::Type(self.next()?, Type::Struct(self.fields()?)),
            "union" => Defined::Type(self.next()?, Type::Union(self.union()?)),
            "program" => self.program()?,
            _ => bail!("no definition begins like that"),
        };
        self.expect(";")?;
        Ok(defined)
    }

    /// A number, or the name of one.
    fn number(&mut self) -> Result<u64> {
        let text = self.next()?;
        if let Some(number) = self.numbers.get(&text) {
            return Ok(*number);
        }
        let number = match text.strip_prefix("0x").or(text.strip_prefix("0X")) {
            Some(digits) => u64::from_str_radix(digits, 16),
            None => text.parse(),
        };
        number.with_context(|| format!("`{text}` is no number and no name of one"))
    }

    /// One or more elements with commas between; one may stand behind the last.
    fn members(&mut self) -> Result<Vec<(String, u64)>> {
        self.expect("{")?;
        let mut members = Vec::new();
        while !self.takes("}") {
            let name = self.next()?;
            self.expect("=")?;
            let number = self.number()?;
            self.numbers.insert(name.clone(), number);
            members.push((name, number));
            self.takes(",");
        }
        Ok(members)
    }

    fn fields(&mut self) -> Result<Vec<Field>> {
        self.expect("{")?;
        let mut fields = Vec::new();
        while !self.takes("}") {
            fields.push(self.field()?.context("a field that is nothing")?);
            self.expect(";")?;
        }
        Ok(fields)
    }

    fn union(&mut self) -> Result<Union> {
        self.expect("switch")?;
        self.expect("(")?;
        let on = self.of()?;
        self.next()?;
        self.expect(")")?;
        self.expect("{")?;
        let mut union = Union { on, arms: Vec::new(), default: None };
        while !self.takes("}") {
            let mut labels = Vec::new();
            while self.takes("case") {
                labels.push(self.next()?);
                self.expect(":")?;
            }
            let is_default = self.takes("default");
            if is_default {
                self.expect(":")?;
            }
            ensure!(is_default || !labels.is_empty(), "an arm without a label");
            let field = self.field()?;
            self.expect(";")?;
            union.arms.extend(labels.into_iter().map(|label| (label, field.clone())));
            if is_default {
                union.default = Some(field);
            }
        }
        Ok(union)
    }

    /// A declaration; `None` is `void`.
    fn field(&mut self) -> Result<Option<Field>> {
        if self.takes("void") {
            return Ok(None);
        }
        let of = self.of()?;
        let optional = self.takes("*");
        let name = self.next()?;
        let shape = if optional {
            Shape::Optional
        } else if self.takes("[") {
            let count = self.number()?;
            self.expect("]")?;
            Shape::Fixed(count)
        } else if self.takes("<") {
            let bound = if self.peek() == Some(">") { UNBOUNDED } else { self.number()? };
            self.expect(">")?;
            Shape::Upto(bound)
        } else {
            Shape::One
        };
        Ok(Some(Field { name, of, shape }))
    }

    /// The name of a type.
    fn of(&mut self) -> Result<String> {
        let mut of = self.next()?;
        if of == "unsigned" {
            of = if self.takes("hyper") { "uint64_t".into() } else { "uint32_t".into() };
            self.takes("int");
        }
        Ok(of)
    }

    fn program(&mut self) -> Result<Defined> {
        let mut depth = 0;
        loop {
            match self.next()?.as_str() {
                "{" => depth += 1,
                "}" if depth == 1 => break,
                "}" => depth -= 1,
                _ => {}
            }
        }
        self.expect("=")?;
        self.number()?;
        Ok(Defined::Nothing)
    }
}

#[cfg(test)]
mod tests;
