//! How a struct, an enumeration and a union are encoded, decoded and drawn. What is generated calls these.

/// A struct: its fields, one after the other.
macro_rules! xdr_struct {
    ($name:ident { $($field:ident: $type:ty,)* }) => {
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name {
            $(pub $field: $type,)*
        }

        impl $crate::Xdr for $name {
            fn encode(&self, out: &mut Vec<u8>) {
                $(self.$field.encode(out);)*
            }

            fn decode(from: &mut &[u8]) -> Result<Self, $crate::Undecodable> {
                Ok(Self { $($field: $crate::Xdr::decode(from)?,)* })
            }

            fn random(dice: &mut $crate::Dice) -> Self {
                Self { $($field: $crate::Xdr::random(dice),)* }
            }
        }
    };
}

/// An enumeration: a number, and no other one.
macro_rules! xdr_enum {
    ($name:ident { $($member:ident = $number:literal,)* }) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(u32)]
        pub enum $name {
            $($member = $number,)*
        }

        impl $name {
            pub const ALL: &[Self] = &[$(Self::$member,)*];
        }

        impl $crate::Xdr for $name {
            fn encode(&self, out: &mut Vec<u8>) {
                (*self as u32).encode(out);
            }

            fn decode(from: &mut &[u8]) -> Result<Self, $crate::Undecodable> {
                let number = u32::decode(from)?;
                let found = Self::ALL.iter().find(|member| **member as u32 == number);
                found.copied().ok_or($crate::Undecodable::Unknown(stringify!($name), number))
            }

            fn random(dice: &mut $crate::Dice) -> Self {
                dice.one_of(Self::ALL)
            }
        }
    };
}

/// A union: what it switches on, and what belongs to that. Where the RFC says `default:`, the variant `Default` has every other value.
macro_rules! xdr_union {
    ($name:ident on $on:ty {
        $([$($label:tt)*] => $arm:ident $(($value:ident: $type:ty))?,)*
    } $($default:ident $(($other:ident: $other_type:ty))?)?) => {
        #[derive(Clone, Debug, PartialEq)]
        pub enum $name {
            $($arm $(($type))?,)*
            $($default($on $(, $other_type)?),)?
        }

        impl $name {
            /// What it switches on.
            #[must_use]
            pub fn on(&self) -> $on {
                match self {
                    $(Self::$arm { .. } => $($label)*,)*
                    $(Self::$default(on, ..) => *on,)?
                }
            }

            /// Appends what belongs to that, without it.
            pub fn encode_arm(&self, out: &mut Vec<u8>) {
                // A union of voids appends nothing.
                let _ = &out;
                match self {
                    $(Self::$arm $(($value))? => { $($crate::Xdr::encode($value, out);)? })*
                    $(Self::$default(_ $(, $other)?) => { $($crate::Xdr::encode($other, out);)? })?
                }
            }

            /// What belongs to this.
            pub fn decode_arm(on: $on, from: &mut &[u8]) -> Result<Self, $crate::Undecodable> {
                let _ = &from;
                #[allow(unreachable_patterns, unreachable_code)]
                Ok(match on {
                    $($($label)* => Self::$arm $((<$type as $crate::Xdr>::decode(from)?))?,)*
                    $(on => Self::$default(on $(, <$other_type as $crate::Xdr>::decode(from)?)?),)?
                    #[allow(clippy::unnecessary_cast)]
                    on => return Err($crate::Undecodable::Unknown(stringify!($name), on as u32)),
                })
            }

            /// One that switches on this, which it must have.
            pub fn random_arm(on: $on, dice: &mut $crate::Dice) -> Self {
                let _ = &dice;
                #[allow(unreachable_patterns)]
                match on {
                    $($($label)* => Self::$arm $((<$type as $crate::Xdr>::random(dice)))?,)*
                    $(on => Self::$default(on $(, <$other_type as $crate::Xdr>::random(dice))?),)?
                    _ => unreachable!("only its labels are drawn"),
                }
            }
        }

        impl $crate::Xdr for $name {
            fn encode(&self, out: &mut Vec<u8>) {
                self.on().encode(out);
                self.encode_arm(out);
            }

            fn decode(from: &mut &[u8]) -> Result<Self, $crate::Undecodable> {
                let on = $crate::Xdr::decode(from)?;
                Self::decode_arm(on, from)
            }

            /// Each label is as likely as the other, and where there is a default, all that goes there together are one.
            fn random(dice: &mut $crate::Dice) -> Self {
                let labels = [$($($label)*),*];
                let all = labels.len() $(+ usize::from(stringify!($default) == "Default"))?;
                let on = match labels.get(dice.below(all as u64) as usize) {
                    Some(on) => *on,
                    None => $crate::Xdr::random(dice),
                };
                Self::random_arm(on, dice)
            }
        }
    };
}

pub(crate) use {xdr_enum, xdr_struct, xdr_union};
