//! taskyard-web: filled in below.
