//! What git prints is read whole: output that looks like git's comes back as it was written, names of any bytes
//! included; other bytes do no harm; and real repositories with such names are seen as they are.

mod listings;
mod names;
mod real;
