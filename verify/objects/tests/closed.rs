//! A shared object that contains atomseq stays loaded after `dlclose`: signals, exiting threads,
//! forks and later calls find its code. The controls take that protection away.

#![cfg(all(target_os = "linux", target_env = "gnu"))]

use std::ffi::{CStr, CString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Barrier;

use verify_support::processes::{Circumstances, in_child, in_fresh_process_under};
#[cfg(atomseq_sections)]
use verify_support::processes::{code_of_child, killed_in_fresh_process_under};
use verify_support::this_test;

type Function = extern "C" fn(u64) -> u64;

/// The shared object while it is loaded, and its functions.
#[derive(Clone, Copy)]
struct Loaded {
    handle: usize,
    start: Function,
    work: Function,
    handled: Function,
}

fn object() -> PathBuf {
    let test = std::env::current_exe().expect("a program has a path");
    let profile = test.parent().and_then(Path::parent);
    profile.expect("in deps").join("examples/libclosed.so")
}

fn load(path: &Path) -> Loaded {
    let path = CString::new(path.as_os_str().as_bytes()).expect("no zeros");
    // SAFETY: the object's only constructors are the standard library's.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    assert!(!handle.is_null(), "{path:?} cannot be loaded");
    let function = |name: &CStr| {
        // SAFETY: an open object and a name.
        let address = unsafe { libc::dlsym(handle, name.as_ptr()) };
        assert!(!address.is_null(), "no {name:?}");
        // SAFETY: every function there has this type.
        unsafe { std::mem::transmute::<*mut libc::c_void, Function>(address) }
    };
    Loaded {
        handle: handle as usize,
        start: function(c"closed_start"),
        work: function(c"closed_work"),
        handled: function(c"closed_handled"),
    }
}

impl Loaded {
    fn close(self) {
        // SAFETY: open since `load`; the tests are about what is used after this.
        let result = unsafe { libc::dlclose(self.handle as *mut libc::c_void) };
        assert_eq!(result, 0);
    }

    fn is_loaded(self) -> bool {
        let at = self.work as usize;
        let maps = verify_support::proc::maps();
        verify_support::proc::mappings(&maps).any(|mapping| mapping.range.contains(&at))
    }
}

fn raise() {
    verify_support::signals::raise(libc::SIGUSR1);
}

/// With the C library's registration of threads, and with atomseq's own, which leaves a hook for
/// the exit of each thread.
fn registrations() -> [Circumstances; 2] {
    let own = [("GLIBC_TUNABLES", "glibc.pthread.rseq=0")];
    [Circumstances::default(), Circumstances::environment(&own)]
}

/// Threads that have used the object outlive its `dlclose`; signals, a fork, their exits and their
/// further calls find its code.
fn goes_on(path: &Path) {
    const THREADS: usize = 3;
    const TIMES: u64 = 1000;
    let loaded = load(path);
    assert_eq!((loaded.start)(1), 1);
    let (used, closed) = (Barrier::new(THREADS + 1), Barrier::new(THREADS + 1));
    std::thread::scope(|scope| {
        for number in 0..THREADS {
            let (used, closed) = (&used, &closed);
            scope.spawn(move || {
                (loaded.work)(TIMES);
                used.wait();
                closed.wait();
                raise();
                if number > 0 {
                    (loaded.work)(TIMES);
                }
            });
        }
        used.wait();
        loaded.close();
        assert!(loaded.is_loaded());
        raise();
        closed.wait();
    });
    assert_eq!((loaded.handled)(0), THREADS as u64 + 1);
    in_child(|| {
        raise();
        assert_eq!((loaded.handled)(0), THREADS as u64 + 2);
    });
    // Threads that begin after it.
    std::thread::spawn(move || (loaded.work)(TIMES))
        .join()
        .expect("it ends");
    assert_eq!((loaded.work)(0), 2 * THREADS as u64 * TIMES);
    // Loaded again, it is the same object, whose handles may be closed as often as one likes.
    for _ in 0..3 {
        let again = load(path);
        assert_eq!(again.work as usize, loaded.work as usize);
        again.close();
        // SAFETY: a handle too often, which is what is tested: the object stays, so this is the
        // address of its record.
        unsafe { libc::dlclose(again.handle as *mut libc::c_void) };
        assert!(loaded.is_loaded());
    }
    raise();
}

#[test]
fn a_closed_object_stays_with_the_c_librarys_registration() {
    let [circumstances, _] = registrations();
    in_fresh_process_under(this_test!(), circumstances, || goes_on(&object()));
}

#[test]
fn a_closed_object_stays_with_its_own_registration() {
    let [_, circumstances] = registrations();
    in_fresh_process_under(this_test!(), circumstances, || goes_on(&object()));
}

/// The dynamic linker knows the object by the name that it was loaded under.
#[test]
fn an_object_that_was_loaded_by_a_relative_path_stays() {
    let [circumstances, _] = registrations();
    in_fresh_process_under(this_test!(), circumstances, || {
        let object = object();
        std::env::set_current_dir(object.parent().expect("a directory")).expect("it is there");
        let loaded = load(Path::new("./libclosed.so"));
        std::env::set_current_dir("/").expect("the root");
        assert_eq!((loaded.start)(1), 1);
        loaded.close();
        assert!(loaded.is_loaded());
        raise();
    });
}

/// An object that was removed meanwhile is still found by its name.
#[test]
fn an_object_whose_file_is_gone_stays() {
    let [circumstances, _] = registrations();
    in_fresh_process_under(this_test!(), circumstances, || {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let copy = directory.join(format!("closed-{}.so", std::process::id()));
        std::fs::copy(object(), &copy).expect("writable");
        let loaded = load(&copy);
        std::fs::remove_file(&copy).expect("just made");
        assert_eq!((loaded.start)(1), 1);
        loaded.close();
        assert!(loaded.is_loaded());
        raise();
    });
}

/// An object that has not started atomseq up has left nothing, and is unloaded.
#[test]
fn an_object_that_has_not_used_atomseq_is_unloaded() {
    let [circumstances, _] = registrations();
    in_fresh_process_under(this_test!(), circumstances, || {
        let loaded = load(&object());
        assert!(loaded.is_loaded());
        loaded.close();
        assert!(!loaded.is_loaded());
    });
}

/// A plug-in that has not started atomseq up is unloaded after this program has indexed its
/// sequences, and its next version is loaded in its place: at the same addresses, with the same
/// record of the dynamic linker, but without sequences there.
#[cfg(atomseq_sections)]
#[test]
fn what_replaces_an_unloaded_object_is_not_taken_for_it() {
    use atomseq::internals::{objects, table};
    use verify_objects::Plugin;
    use verify_support::requirements::is_there_or_skipped;

    objects::look_finder_up();
    let newer = "use glibc 2.35 or newer";
    if !is_there_or_skipped(objects::is_finder_known(), "_dl_find_object", newer) {
        return;
    }
    let file = std::fs::read(object().with_file_name("libplugin.so")).expect("just built");
    let mut without = file.clone();
    let names: Vec<usize> = (0..file.len() - 8)
        .filter(|at| file[*at..].starts_with(b"atomseq\0\0\0\0\0"))
        .collect();
    assert!(names.len() >= 6, "each sequence has a note");
    names.iter().for_each(|at| without[*at] = b'x');
    let write = |name: &str, file: &[u8]| {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::write(&path, file).expect("writable");
        CString::new(path.as_os_str().as_bytes()).expect("no zeros")
    };
    let versions = [
        write("version-1.so", &file),
        write("version-2.so", &without),
    ];
    in_fresh_process_under(this_test!(), Circumstances::default(), || {
        let load = |path: &CStr| {
            // SAFETY: the object's only constructors are the standard library's.
            let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
            assert!(!handle.is_null(), "{path:?} cannot be loaded");
            // SAFETY: an open object and a name.
            let plugin = unsafe { libc::dlsym(handle, c"plugin".as_ptr()) };
            assert!(!plugin.is_null());
            (handle, plugin.cast::<Plugin>())
        };
        let (handle, plugin) = load(&versions[0]);
        let mut row = [0; 4];
        // SAFETY: the static of this name, while its object is loaded.
        unsafe { ((*plugin).row)(0, &mut row) };
        let inside = row[0] + 1;
        assert!(table::refresh() && table::find(inside).is_some());
        let before = objects::containing(inside);
        // SAFETY: open, and nothing of it is used from here on.
        assert_eq!(unsafe { libc::dlclose(handle) }, 0);
        assert_eq!(objects::containing(inside), objects::Holder::Nothing);
        assert_eq!(table::find(inside), None);

        load(&versions[1]);
        assert_eq!(objects::containing(inside), before, "it looks the same");
        assert_eq!(table::find(inside), None);
    });
}

/// An allocator in a preloaded object, whose first use of atomseq is a call of the dynamic linker's
/// in the middle of loading. The dynamic linker's state must not be touched then; nor need it be,
/// because such an object is never unloaded.
#[cfg(atomseq_sections)]
#[test]
fn start_up_in_the_middle_of_loading_leaves_the_dynamic_linker_alone() {
    let preloaded = object().with_file_name("libpreloaded.so");
    let preloaded = preloaded
        .to_str()
        .expect("a path of this repository")
        .to_owned();
    let environment = [("LD_PRELOAD", &*preloaded.leak())];
    let circumstances = Circumstances::environment(&environment);
    in_fresh_process_under(this_test!(), circumstances, || {
        // SAFETY: a name.
        let calls = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"preloaded_calls".as_ptr()) };
        assert!(!calls.is_null(), "it was preloaded");
        // SAFETY: that function's type.
        let calls = unsafe { std::mem::transmute::<*mut libc::c_void, Function>(calls) };
        let path = CString::new(object().as_os_str().as_bytes()).expect("no zeros");
        let mut number = 1;
        // Until loading makes fewer calls.
        while code_of_child(|| {
            calls(number);
            // SAFETY: the object's only constructors are the standard library's.
            let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
            let missing = calls(0);
            assert!(!handle.is_null());
            i32::from(missing == 0)
        }) == 1
        {
            number += 1;
        }
        assert!(number > 5, "the dynamic linker calls another malloc");
    });
}

#[cfg(atomseq_sections)]
#[test]
fn control_a_signal_after_the_object_was_unloaded() {
    let [circumstances, _] = registrations();
    killed_in_fresh_process_under(this_test!(), circumstances, libc::SIGSEGV, || {
        let loaded = load(&object());
        assert_eq!((loaded.start)(0), 1);
        loaded.close();
        assert!(!loaded.is_loaded());
        raise();
    });
}

#[cfg(atomseq_sections)]
#[test]
fn control_a_thread_that_exits_after_the_object_was_unloaded() {
    let [_, circumstances] = registrations();
    killed_in_fresh_process_under(this_test!(), circumstances, libc::SIGSEGV, || {
        let loaded = load(&object());
        assert_eq!((loaded.start)(0), 1);
        let (used, closed) = (Barrier::new(2), Barrier::new(2));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                (loaded.work)(1);
                used.wait();
                closed.wait();
            });
            used.wait();
            loaded.close();
            assert!(!loaded.is_loaded());
            closed.wait();
        });
    });
}
