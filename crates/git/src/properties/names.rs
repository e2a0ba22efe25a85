//! Names of files, branches and objects that a repository may well hold.

use crate::oid::Oid;
use proptest::prelude::*;

/// The name of a file: any bytes but NUL and `/`, odd ones often.
pub fn part() -> impl Strategy<Value = Vec<u8>> {
    let odd: Vec<&[u8]> =
        vec![b"\t", b"\n", b"\"", b"\\", b" ", b" => ", b"-", b":", b"*", b"{", b"}", b"\xff", b"\xc3", b"'", b"\x01", b"?", b"1 "];
    let piece = prop_oneof![
        3 => prop::sample::select(odd).prop_map(<[u8]>::to_vec),
        3 => "[a-z0-9.]{1,4}".prop_map(String::into_bytes),
        1 => "[é€😀Ä]".prop_map(String::into_bytes),
    ];
    prop::collection::vec(piece, 1..5).prop_map(|pieces| pieces.concat()).prop_filter("a name of git's own", |name| {
        let lower = name.to_ascii_lowercase();
        !matches!(&name[..], b"." | b"..") && !lower.windows(3).any(|word| word == b"git")
    })
}

/// A path of one or two parts.
pub fn path() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![3 => part(), 1 => (part(), part()).prop_map(|(folder, name)| [folder, name].join(&b'/'))]
}

/// An object's name, of either length.
pub fn oid() -> impl Strategy<Value = Oid> {
    prop_oneof!["[0-9a-f]{40}", "[0-9a-f]{64}"].prop_map(|text| Oid::parse(&text).unwrap())
}

/// The name of a branch, one that looks like a whole ref among them.
pub fn branch() -> impl Strategy<Value = String> {
    prop_oneof![4 => "[a-zé][a-z0-9é-]{0,8}(/[a-z0-9]{1,6}){0,2}", 1 => "refs/heads/[a-z]{1,5}", 1 => "heads/[a-z]{1,5}"]
}

/// Output that isn't git's: records and fields in disorder, or any bytes.
pub fn disorder() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        3 => Just(b"\0".to_vec()),
        2 => prop::sample::select(vec!["1 .M N... ", "u UU ", "? ", ":100644 100644 ", "R100", "worktree /x", "HEAD ", "branch refs/heads/", "\n", "\t", "1", "99999999999999999999", "-1", "CONFLICT (contents)", "refs/heads/"])
            .prop_map(|text| text.as_bytes().to_vec()),
        1 => oid().prop_map(|oid| oid.as_str().as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..20),
    ];
    prop::collection::vec(piece, 0..30).prop_map(|pieces| pieces.concat())
}
