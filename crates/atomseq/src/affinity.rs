//! Moving a test's thread between CPUs.

/// Runs `work` on a new thread bound to the first of two CPUs. Does nothing unless there are two
/// and sections can be fenced.
pub fn on_two_cpus(work: impl FnOnce([usize; 2], fn(usize)) + Send) {
    if !crate::status().gates_active() {
        return;
    }
    // SAFETY: a CPU set is plain bits, for which zero is valid.
    let mut allowed: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is valid for writes of the given size.
    let result = unsafe { libc::sched_getaffinity(0, size_of_val(&allowed), &mut allowed) };
    assert_eq!(result, 0);
    let mut cpus = (0..libc::CPU_SETSIZE as usize)
        // SAFETY: the number is below the set's size.
        .filter(|cpu| unsafe { libc::CPU_ISSET(*cpu, &allowed) });
    let (Some(first), Some(second)) = (cpus.next(), cpus.next()) else {
        return;
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            move_to(first);
            work([first, second], move_to);
        });
    });
}

/// Binds this thread to a CPU.
fn move_to(cpu: usize) {
    // SAFETY: a CPU set is plain bits, for which zero is valid.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the number came from such a set, so it is below the size.
    unsafe { libc::CPU_SET(cpu, &mut set) };
    // SAFETY: the set is valid for reads of the given size.
    let result = unsafe { libc::sched_setaffinity(0, size_of_val(&set), &set) };
    assert_eq!(result, 0);
}
