//! Mutual exclusion that costs nothing until something interrupts you.
