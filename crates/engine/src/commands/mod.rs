//! The commands that faces call, one per file: an input with the tool's parameters, an output, the rule between.

pub mod input {
    //! The inputs of all commands, by the tool's name.
}
