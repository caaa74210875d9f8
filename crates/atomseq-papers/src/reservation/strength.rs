//! The strength of a reservation: which processors its stores and loads must be ordered for.

use std::marker::PhantomData;
use std::sync::atomic::{Ordering, compiler_fence, fence};

use atomseq::scope::{Machine, SameCpu, Scope};

use super::{Bundle, Lamport};

/// A strength: [`Fenced`] or [`Unfenced`].
pub trait Strength: sealed::Sealed + Sized + 'static {
    /// What the reservation is atomic against.
    type Scope: Scope;

    /// The name of [`PerLock`](super::PerLock) with this strength.
    const PER_LOCK: &'static str;

    /// The name of [`Bundled`](super::Bundled) with this strength.
    const BUNDLED: &'static str;

    #[doc(hidden)]
    fn fence();

    #[doc(hidden)]
    fn bundle() -> &'static Lamport<Self>;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Fenced {}
    impl<G: super::OneCpu> Sealed for super::Unfenced<G> {}
}

/// The strength for threads on any CPU: a full fence at each of the two places where a processor
/// could reorder a load before a store.
#[derive(Clone, Copy, Debug)]
pub struct Fenced;

impl Strength for Fenced {
    type Scope = Machine;
    const PER_LOCK: &'static str = "reservation-a";
    const BUNDLED: &'static str = "reservation-b";

    #[inline(always)]
    fn fence() {
        fence(Ordering::SeqCst);
    }

    fn bundle() -> &'static Lamport<Fenced> {
        static BUNDLE: Lamport<Fenced> = Lamport::new();
        &BUNDLE
    }
}

/// The strength for threads that run on one CPU, as B91's did. It needs no fence, because a context
/// switch separates the accesses of one thread from those of another.
#[derive(Clone, Copy, Debug)]
pub struct Unfenced<G>(PhantomData<fn() -> G>);

impl<G: OneCpu> Strength for Unfenced<G> {
    type Scope = SameCpu;
    const PER_LOCK: &'static str = "reservation-a-one-cpu";
    const BUNDLED: &'static str = "reservation-b-one-cpu";

    #[inline(always)]
    fn fence() {
        compiler_fence(Ordering::SeqCst);
    }

    fn bundle() -> &'static Lamport<Unfenced<G>> {
        G::bundle().of()
    }
}

/// A group of threads that run on one CPU, which makes [`Unfenced`] reservations usable. Variables
/// of this strength are [`Sync`], because the implementer guarantees that only such threads access
/// them.
///
/// ```
/// use atomseq_papers::reservation::{Bundle, OneCpu, PerLock, Unfenced};
/// use atomseq::mutex::TestAndSet;
///
/// struct Pinned;
///
/// // SAFETY: this program has one thread, which is pinned below, and the bundle is used only here.
/// unsafe impl OneCpu for Pinned {
///     fn bundle() -> &'static Bundle {
///         static BUNDLE: Bundle = Bundle::new();
///         &BUNDLE
///     }
/// }
///
/// # #[cfg(target_os = "linux")] {
/// // SAFETY: a CPU set is plain bits, and the call affects only this thread.
/// unsafe {
///     let mut cpus: libc::cpu_set_t = std::mem::zeroed();
///     libc::CPU_SET(usize::try_from(libc::sched_getcpu()).unwrap(), &mut cpus);
///     assert_eq!(libc::sched_setaffinity(0, size_of_val(&cpus), &cpus), 0);
/// }
/// # }
/// let flag = PerLock::<Unfenced<Pinned>>::CLEAR;
/// assert!(flag.test_and_set());
/// ```
///
/// # Safety
///
/// Every thread that uses an [`Unfenced`] reservation of this group must run on the same CPU
/// meanwhile. Its affinity must thus be that one CPU only, and must not be changed. `bundle` must
/// always return the same instance, which no other group uses.
pub unsafe trait OneCpu: 'static {
    /// Returns the group's own [`Bundle`], for [`Bundled`](super::Bundled).
    fn bundle() -> &'static Bundle;
}
