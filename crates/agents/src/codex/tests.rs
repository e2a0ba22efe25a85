//! Recorded lines against the driver.
