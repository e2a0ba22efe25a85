//! taskyard-git: filled in below.
