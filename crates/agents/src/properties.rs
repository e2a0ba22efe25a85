//! Whatever an agent writes, however it is cut: nothing panics, memory stays bounded, and what is good arrives.
//!
//! One property per thing that can't go wrong, on the parsers themselves and on whole drivers with a process.

mod drivers;
mod lines;
mod parsers;
mod streams;
