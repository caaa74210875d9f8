//! A program that searches for its own sequences and, with an argument, for those of a shared
//! object that it loads as well. Prints the number of rows found, or the number of notes that name
//! no sequence.

#[cfg(atomseq_sections)]
fn main() {
    use atomseq::internals::table;
    use verify_objects::{HOLDERS, check, run};

    run();
    let begin = HOLDERS[0].function as usize;
    assert_eq!(table::find(begin + 8), None, "there is no index yet");
    table::refresh();
    if table::refused() > 0 {
        return report_refused();
    }
    let own = check(&HOLDERS).expect("the program's own sequences");
    println!("rows: {own}");
    if let Some(path) = std::env::args().nth(1) {
        load(&path);
        load(&path);
    }
}

/// Another tool has moved the notes: an audit must report that, and a signal must find no sequence
/// where there is none.
#[cfg(atomseq_sections)]
fn report_refused() {
    use atomseq::signal;

    // SAFETY: the handler does nothing.
    unsafe { signal::install(libc::SIGUSR1, |_| {}) }.expect("a handler");
    let audit = signal::audit();
    assert!(!audit.is_clean());
    println!("refused: {}; {audit}", audit.unprotected());
}

/// Loads the shared object, finds its sequences, and unloads it.
#[cfg(atomseq_sections)]
fn load(path: &str) {
    use atomseq::internals::table::{self, find, find_clone};
    use verify_objects::{HOLDERS, Plugin, check};

    let path = std::ffi::CString::new(path).expect("a path");
    // SAFETY: the shared object of these tests, which runs nothing when it is loaded.
    let (handle, plugin, knows_objects) = unsafe {
        let handle = libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
        assert!(!handle.is_null(), "{path:?} cannot be loaded");
        let plugin = libc::dlsym(handle, c"plugin".as_ptr()).cast::<Plugin>();
        let knows = libc::dlsym(libc::RTLD_DEFAULT, c"_dl_find_object".as_ptr());
        (
            handle,
            plugin.as_ref().expect("it has that"),
            !knows.is_null(),
        )
    };
    let (mut first, mut second) = ([0; 4], [0; 4]);
    (plugin.row)(0, &mut first);
    (plugin.row)(1, &mut second);
    let ([start, end, ..], [.., clone, limit]) = (first, second);
    // Loaded since the last refresh: found by its notes, if the C library reports the object.
    let found = |pc: usize| find(pc).map(|row| (row.start, row.end));
    let in_place = (
        found(start + 1),
        found(end - 1),
        find_clone(clone).is_some(),
        find_clone(limit - 1).is_some(),
    );
    match knows_objects {
        true => assert_eq!(
            in_place,
            (Some((start, end)), Some((start, end)), true, true)
        ),
        false => assert_eq!(in_place, (None, None, false, false)),
    }
    for edge in [start, end, clone, limit] {
        assert_eq!(found(edge), None);
    }
    table::refresh();
    check(&HOLDERS).expect("the program's own sequences");
    let all = check(plugin.holders).expect("the plugin's sequences");
    assert_eq!(found(start + 1), Some((start, end)));
    // The plugin's own atomseq finds both as well.
    assert_eq!((plugin.check)(&HOLDERS), all);
    println!("rows with the plugin: {all}; found before a refresh: {knows_objects}");
    // SAFETY: nothing of it is used after this.
    unsafe { libc::dlclose(handle) };
    if knows_objects {
        assert_eq!(found(start + 1), None, "it was unloaded");
    }
    table::refresh();
    assert_eq!(found(start + 1), None, "it was unloaded");
    check(&HOLDERS).expect("the program's own sequences");
}

#[cfg(not(atomseq_sections))]
fn main() {
    println!("rows: 0, for there is no table here");
}
