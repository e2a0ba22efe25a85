//! One statement on an SQLite connection, run where it is called: no thread is changed for it.
//!
//! Statements are prepared once per connection and kept. Their texts are those of PostgreSQL, whose `$1` SQLite would
//! take for a name, numbered by its first place in the text; here it becomes `?1`.

use crate::value::Value;
use rusqlite::types::{ToSqlOutput, Value as Cell, ValueRef};
use rusqlite::{CachedStatement, Connection, ToSql};

/// Runs a statement that gives no rows; how many rows it touched.
pub(crate) fn run(conn: &Connection, sql: &str, values: &[Value]) -> rusqlite::Result<u64> {
    let touched = prepare(conn, sql, values)?.raw_execute()?;
    Ok(u64::try_from(touched).unwrap_or(u64::MAX))
}

/// Runs a query; the cells of all its rows.
pub(crate) fn rows(conn: &Connection, sql: &str, values: &[Value]) -> rusqlite::Result<Vec<Vec<Cell>>> {
    let mut statement = prepare(conn, sql, values)?;
    let columns = statement.column_count();
    let mut rows = statement.raw_query();
    let mut all = Vec::new();
    while let Some(row) = rows.next()? {
        all.push((0..columns).map(|column| row.get(column)).collect::<rusqlite::Result<Vec<Cell>>>()?);
    }
    Ok(all)
}

fn prepare<'a>(conn: &'a Connection, sql: &str, values: &[Value]) -> rusqlite::Result<CachedStatement<'a>> {
    let mut statement = conn.prepare_cached(&numbered(sql))?;
    for (index, value) in values.iter().enumerate() {
        statement.raw_bind_parameter(index + 1, value)?;
    }
    Ok(statement)
}

/// `$1` as `?1`. No text of the store has a `$` before a digit that is anything else.
fn numbered(sql: &str) -> String {
    let mut text = String::with_capacity(sql.len());
    let mut rest = sql;
    while let Some(at) = rest.find('$') {
        let (before, behind) = rest.split_at(at);
        text.push_str(before);
        rest = behind.get(1..).unwrap_or_default();
        text.push(if rest.starts_with(|next: char| next.is_ascii_digit()) { '?' } else { '$' });
    }
    text.push_str(rest);
    text
}

impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Value::Int(Some(number)) => ValueRef::Integer(*number),
            Value::Real(Some(number)) => ValueRef::Real(*number),
            Value::Text(Some(text)) => ValueRef::Text(text.as_bytes()),
            Value::Int(None) | Value::Real(None) | Value::Text(None) => ValueRef::Null,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_keep_their_numbers() {
        assert_eq!(
            numbered("UPDATE t SET a = a + $3 WHERE b = $1 AND c IN ($10, $2)"),
            "UPDATE t SET a = a + ?3 WHERE b = ?1 AND c IN (?10, ?2)"
        );
        assert_eq!(numbered("SELECT '$ä$'"), "SELECT '$ä$'");
    }

    #[test]
    fn values_are_bound_by_number_whatever_their_order_in_the_text() {
        let conn = Connection::open_in_memory().unwrap();
        let values = [Value::Int(Some(1)), Value::Text(Some("two".into())), Value::Real(None)];
        let found = rows(&conn, "SELECT $3, $2, $1, $2", &values).unwrap();
        assert_eq!(found, [[Cell::Null, Cell::Text("two".into()), Cell::Integer(1), Cell::Text("two".into())]]);
    }
}
