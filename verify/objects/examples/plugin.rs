//! A shared object that carries its own atomseq and its own sequences.

#[cfg(atomseq_sections)]
mod shared {
    use atomseq::internals::table;
    use verify_objects::{HOLDERS, Holder, Plugin, check, run};

    extern "C" fn find(holders: &[Holder; 3]) -> usize {
        run();
        table::refresh();
        match check(&HOLDERS).and_then(|_| check(holders)) {
            Ok(rows) => rows,
            Err(missing) => {
                println!("the plugin: {missing}");
                0
            }
        }
    }

    extern "C" fn row(holder: usize, addresses: &mut [usize; 4]) {
        table::refresh();
        let begin = HOLDERS[holder].function as usize;
        let row = table::rows()
            .filter(|row| row.start >= begin)
            .min_by_key(|row| row.start)
            .expect("its own");
        let clone = row.clone.map_or([0; 2], |clone| [clone.start, clone.limit]);
        *addresses = [row.start, row.end, clone[0], clone[1]];
    }

    /// The entry points for the other objects.
    #[unsafe(no_mangle)]
    pub static plugin: Plugin = Plugin {
        holders: &HOLDERS,
        check: find,
        row,
    };

    /// For a C program that links this object: returns the number of rows found, or 0.
    #[unsafe(no_mangle)]
    pub extern "C" fn plugin_rows() -> usize {
        find(&HOLDERS)
    }
}
