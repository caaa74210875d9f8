//! A thread exits between any two instructions of an allocation, which the processor's trap flag
//! lets it execute one by one: the descriptors that others have freed meanwhile are found.
#![cfg(all(atomseq_sections, target_arch = "x86_64"))]

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering::SeqCst};

use atomseq::type_stable::Pool;
use verify_support::code::steps::STEP;
use verify_support::processes::{Circumstances, in_fresh_process_under};
use verify_support::signals::install_plainly;
use verify_support::this_test;
use verify_support::threads::exit_this_thread;

/// Few enough that no CPU caches any.
const LIMIT: usize = 60;

/// The number of points of an allocation at which the others are freed.
const POINTS: usize = 110;

type Words = Pool<AtomicU64>;

static POOL: AtomicPtr<Words> = AtomicPtr::new(ptr::null_mut());
/// The addresses of the descriptors that the handler frees.
static OTHERS: [AtomicUsize; LIMIT - 1] = [const { AtomicUsize::new(0) }; LIMIT - 1];
static IS_STEPPING: AtomicBool = AtomicBool::new(false);
static STEPS: AtomicUsize = AtomicUsize::new(0);
static FREE_AT: AtomicUsize = AtomicUsize::new(0);
static EXIT_AT: AtomicUsize = AtomicUsize::new(0);

fn pool() -> &'static Words {
    // SAFETY: it lives until the end of a trial, after which no thread uses it.
    unsafe { &*POOL.load(SeqCst) }
}

fn free_others() {
    for address in OTHERS.iter().map(|other| other.swap(0, SeqCst)) {
        let descriptor = pool().descriptor_at(address).expect("one of this pool's");
        // SAFETY: left by `into_raw`, and its address was taken just now.
        drop(unsafe { pool().adopt(descriptor) });
    }
}

extern "C" fn on_trap(_: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the context of a handler that was installed with SA_SIGINFO.
    let registers = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    let flags = &mut registers[libc::REG_EFL as usize];
    if !IS_STEPPING.load(SeqCst) {
        *flags &= !STEP;
        return;
    }
    *flags |= STEP;
    let step = STEPS.fetch_add(1, SeqCst);
    if step == FREE_AT.load(SeqCst) {
        free_others();
    }
    if step == EXIT_AT.load(SeqCst) {
        IS_STEPPING.store(false, SeqCst);
        // This thread holds nothing that another one needs.
        exit_this_thread();
    }
}

extern "C" fn allocate_step_by_step(_: *mut c_void) -> *mut c_void {
    IS_STEPPING.store(true, SeqCst);
    // SAFETY: there is a handler.
    unsafe { libc::raise(libc::SIGTRAP) };
    let allocated = pool().allocate();
    IS_STEPPING.store(false, SeqCst);
    allocated.expect("the last one").into_raw();
    ptr::null_mut()
}

/// Frees the other descriptors while a thread allocates the last one or exits. Returns how many can
/// be allocated afterwards, and the number of steps that the thread made.
fn trial(free_at: usize, exit_at: usize) -> (usize, usize) {
    let build = Pool::options().limit(LIMIT).try_build();
    let boxed = Box::into_raw(Box::new(build.expect("a pool")));
    POOL.store(boxed, SeqCst);
    for other in &OTHERS {
        let allocated = pool().allocate().expect("one of the limit");
        other.store(allocated.address(), SeqCst);
        allocated.into_raw();
    }
    STEPS.store(0, SeqCst);
    FREE_AT.store(free_at, SeqCst);
    EXIT_AT.store(exit_at, SeqCst);
    // SAFETY: a thread that is joined, however it exits; afterwards only this function borrows the
    // pool.
    unsafe {
        let mut thread = std::mem::zeroed();
        let (no_attributes, nothing) = (ptr::null(), ptr::null_mut());
        let made = libc::pthread_create(&mut thread, no_attributes, allocate_step_by_step, nothing);
        assert_eq!(made, 0);
        assert_eq!(libc::pthread_join(thread, ptr::null_mut()), 0);
    }
    let found = (0..LIMIT).map_while(|_| pool().allocate().ok().map(|one| one.into_raw()));
    let found = found.count();
    // SAFETY: made above, and not used any more.
    drop(unsafe { Box::from_raw(boxed) });
    (found, STEPS.load(SeqCst))
}

/// The others are freed at about 110 points of the allocation, and the thread exits at one of two
/// later points: about 220 trials.
#[test]
fn what_is_free_is_found_after_a_thread_has_exited_in_an_allocation() {
    in_fresh_process_under(this_test!(), Circumstances::default(), || {
        install_plainly(libc::SIGTRAP, on_trap, 0, &[]);
        // A single-stepped section never completes.
        atomseq::set_restart_limit(0);
        let never = usize::MAX;
        let (left, steps) = trial(never, never);
        assert_eq!(left, 0);
        // Windows are dozens of instructions long in unoptimised builds, and a handful in optimised
        // ones.
        let distance = steps.div_ceil(POINTS);
        let mut freed = 0;
        for free_at in (0..steps).step_by(distance) {
            for later in [5, 8] {
                let exit_at = free_at + later * distance;
                let (found, _) = trial(free_at, exit_at);
                assert!(
                    found >= LIMIT - 1,
                    "{found} found: freed at {free_at}, exited at {exit_at}"
                );
                freed += 1;
            }
        }
        println!("{freed} trials");
    });
}
