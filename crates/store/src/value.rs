//! Values on their way into and out of the database: three kinds only, so that one schema text and one
//! decoder serve both databases. Ids, words and JSON are text; times are microseconds UTC; truth is 0 or 1.

use crate::error::Error;
use jiff::Timestamp;
use rusqlite::types::Value as Cell;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sqlx::Row as _;
use sqlx::postgres::PgRow;
use taskyard_domain::alias::Vocabulary;
use taskyard_domain::name::ShortId;

/// The kind of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `BIGINT`
    Int,
    /// `DOUBLE PRECISION`
    Real,
    /// `TEXT`
    Text,
}

/// A value with its kind, so that an absent one is still typed (PostgreSQL needs that).
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Int(Option<i64>),
    Real(Option<f64>),
    Text(Option<String>),
}

impl Value {
    fn null(kind: Kind) -> Self {
        match kind {
            Kind::Int => Value::Int(None),
            Kind::Real => Value::Real(None),
            Kind::Text => Value::Text(None),
        }
    }

    fn is_null(&self) -> bool {
        matches!(self, Value::Int(None) | Value::Real(None) | Value::Text(None))
    }
}

/// A row of either database.
pub(crate) enum Row {
    Sqlite(Vec<Cell>),
    Postgres(PgRow),
}

impl Row {
    fn value(&self, index: usize, kind: Kind) -> Result<Value, String> {
        match self {
            Row::Sqlite(cells) => match (cells.get(index), kind) {
                // SQLite has no typed null.
                (Some(Cell::Null), kind) => Ok(Value::null(kind)),
                (Some(Cell::Integer(number)), Kind::Int) => Ok(Value::Int(Some(*number))),
                (Some(Cell::Real(number)), Kind::Real) => Ok(Value::Real(Some(*number))),
                #[allow(clippy::cast_precision_loss, reason = "a whole number in a place for fractions, as a literal in a query gives it")]
                (Some(Cell::Integer(number)), Kind::Real) => Ok(Value::Real(Some(*number as f64))),
                (Some(Cell::Text(text)), Kind::Text) => Ok(Value::Text(Some(text.clone()))),
                (Some(other), kind) => Err(format!("a value of the kind {kind:?} is expected, not {}", other.data_type())),
                (None, _) => Err(format!("there is no column {index}")),
            },
            Row::Postgres(row) => {
                let value = match kind {
                    Kind::Int => row.try_get(index).map(Value::Int),
                    Kind::Real => row.try_get(index).map(Value::Real),
                    Kind::Text => row.try_get(index).map(Value::Text),
                };
                value.map_err(|error| error.to_string())
            }
        }
    }

    /// The field at `index`; `what` and `column` name it in the error.
    pub(crate) fn get<T: Field>(&self, index: usize, what: &'static str, column: &str) -> Result<T, Error> {
        let problem = |problem: String| Error::Stored { what, column: column.into(), problem };
        let value = self.value(index, T::KIND).map_err(problem)?;
        T::read(value).map_err(problem)
    }

    /// The JSON at `index`.
    pub(crate) fn get_json<T: DeserializeOwned>(&self, index: usize, what: &'static str, column: &str) -> Result<T, Error> {
        let text: String = self.get(index, what, column)?;
        serde_json::from_str(&text).map_err(|e| Error::Stored { what, column: column.into(), problem: e.to_string() })
    }

    /// The JSON at `index`, or nothing.
    pub(crate) fn get_json_opt<T: DeserializeOwned>(&self, index: usize, what: &'static str, column: &str) -> Result<Option<T>, Error> {
        let text: Option<String> = self.get(index, what, column)?;
        text.map(|text| serde_json::from_str(&text)).transpose().map_err(|e| Error::Stored {
            what,
            column: column.into(),
            problem: e.to_string(),
        })
    }
}

/// `value` as JSON text.
pub(crate) fn json<T: Serialize>(value: &T) -> Result<Value, Error> {
    serde_json::to_string(value).map(|text| Value::Text(Some(text))).map_err(|e| Error::Stored {
        what: "value",
        column: std::any::type_name::<T>().into(),
        problem: e.to_string(),
    })
}

/// `value` as JSON text, or nothing.
pub(crate) fn json_opt<T: Serialize>(value: &Option<T>) -> Result<Value, Error> {
    value.as_ref().map_or(Ok(Value::Text(None)), json)
}

/// A type that fits into one column.
pub(crate) trait Field: Sized {
    /// The column's kind.
    const KIND: Kind;
    /// The value to store.
    fn value(&self) -> Value;
    /// The value read back; what is wrong with it otherwise.
    fn read(value: Value) -> Result<Self, String>;
}

fn missing<T>() -> Result<T, String> {
    Err("a value is missing".into())
}

impl<T: Field> Field for Option<T> {
    const KIND: Kind = T::KIND;
    fn value(&self) -> Value {
        self.as_ref().map_or(Value::null(T::KIND), Field::value)
    }
    fn read(value: Value) -> Result<Self, String> {
        if value.is_null() { Ok(None) } else { T::read(value).map(Some) }
    }
}

impl Field for i64 {
    const KIND: Kind = Kind::Int;
    fn value(&self) -> Value {
        Value::Int(Some(*self))
    }
    fn read(value: Value) -> Result<Self, String> {
        if let Value::Int(Some(number)) = value { Ok(number) } else { missing() }
    }
}

impl Field for i32 {
    const KIND: Kind = Kind::Int;
    fn value(&self) -> Value {
        Value::Int(Some(i64::from(*self)))
    }
    fn read(value: Value) -> Result<Self, String> {
        i32::try_from(i64::read(value)?).map_err(|_| "the number is out of range".into())
    }
}

impl Field for bool {
    const KIND: Kind = Kind::Int;
    fn value(&self) -> Value {
        Value::Int(Some(i64::from(*self)))
    }
    fn read(value: Value) -> Result<Self, String> {
        match i64::read(value)? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(format!("{other} is neither 0 nor 1")),
        }
    }
}

impl Field for f64 {
    const KIND: Kind = Kind::Real;
    fn value(&self) -> Value {
        Value::Real(Some(*self))
    }
    fn read(value: Value) -> Result<Self, String> {
        if let Value::Real(Some(number)) = value { Ok(number) } else { missing() }
    }
}

impl Field for String {
    const KIND: Kind = Kind::Text;
    fn value(&self) -> Value {
        text(self)
    }
    fn read(value: Value) -> Result<Self, String> {
        if let Value::Text(Some(text)) = value { Ok(text) } else { missing() }
    }
}

/// `value` as text. PostgreSQL can't store NUL, so it becomes U+FFFD on both databases alike: an agent's
/// stray byte must not keep a run from being recorded.
pub(crate) fn text(value: &str) -> Value {
    let clean = if value.contains('\0') { value.replace('\0', "\u{fffd}") } else { value.to_owned() };
    Value::Text(Some(clean))
}

impl Field for Timestamp {
    const KIND: Kind = Kind::Int;
    fn value(&self) -> Value {
        Value::Int(Some(self.as_microsecond()))
    }
    fn read(value: Value) -> Result<Self, String> {
        Timestamp::from_microsecond(i64::read(value)?).map_err(|e| e.to_string())
    }
}

impl Field for ShortId {
    const KIND: Kind = Kind::Text;
    fn value(&self) -> Value {
        Value::Text(Some(self.to_string()))
    }
    fn read(value: Value) -> Result<Self, String> {
        let text = String::read(value)?;
        ShortId::parse(&text).ok_or_else(|| format!("{text:?} is not a short id"))
    }
}

macro_rules! parsed {
    ($($type:ty),* $(,)?) => {$(
        impl Field for $type {
            const KIND: Kind = Kind::Text;
            fn value(&self) -> Value {
                Value::Text(Some(self.to_string()))
            }
            fn read(value: Value) -> Result<Self, String> {
                let text = String::read(value)?;
                text.parse().map_err(|_| format!("{text:?} is not a UUID"))
            }
        }
    )*};
}

macro_rules! words {
    ($($type:ty),* $(,)?) => {$(
        impl Field for $type {
            const KIND: Kind = Kind::Text;
            fn value(&self) -> Value {
                Value::Text(Some(self.as_str().into()))
            }
            fn read(value: Value) -> Result<Self, String> {
                let text = String::read(value)?;
                <$type as Vocabulary>::stored(&text).ok_or_else(|| format!("{text:?} is not a {}", <$type as Vocabulary>::WHAT))
            }
        }
    )*};
}

mod fields {
    use super::{Field, Kind, Value, Vocabulary};
    use taskyard_domain::id::*;
    use taskyard_domain::*;

    parsed!(
        uuid::Uuid,
        WorkspaceId,
        RepositoryId,
        ListId,
        StepId,
        TaskId,
        AgentId,
        ProfileId,
        SessionId,
        RunId,
        WorktreeId,
        MergeId,
        SnapshotId,
        MessageId,
        QuestionId,
    );
    words!(
        repository::HookPolicy,
        repository::SignPolicy,
        agent::DriverKind,
        agent::PermissionPolicy,
        task::Kind,
        task::Priority,
        task::Status,
        run::Kind,
        run::State,
        run::Outcome,
        run::Slot,
        step::Stage,
        session::State,
        worktree::State,
        merge::Strategy,
        merge::Kind,
        merge::State,
        question::Kind,
        question::State,
        message::State,
        event::Kind,
    );
}

/// The values of a statement, in the order of `$1`, `$2`, …
macro_rules! values {
    ($($value:expr),* $(,)?) => { vec![$($crate::value::Field::value(&$value)),*] };
}
pub(crate) use values;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_values_keep_their_kind() {
        assert_eq!(Field::value(&None::<i64>), Value::Int(None));
        assert_eq!(Field::value(&None::<ShortId>), Value::Text(None));
        assert_eq!(Option::<f64>::read(Value::Real(None)), Ok(None));
        assert!(i64::read(Value::Int(None)).is_err());
    }

    #[test]
    fn nul_is_replaced_and_odd_truth_refused() {
        assert_eq!(Field::value(&"a\0b".to_owned()), Value::Text(Some("a\u{fffd}b".into())));
        assert!(bool::read(Value::Int(Some(2))).is_err());
    }
}
