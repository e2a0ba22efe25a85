//! taskyard-store: filled in below.
