//! taskyard-engine: filled in below.
