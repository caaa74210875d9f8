//! Which processors the stores and loads of a reservation must be ordered for.

use std::marker::PhantomData;
use std::sync::atomic::{Ordering, compiler_fence, fence};

use atomseq::scope::{Machine, SameCpu, Scope};

use super::{Bundle, Lamport};

/// [`Fenced`] or [`Unfenced`].
pub trait Strength: sealed::Sealed + Sized + 'static {
    /// Whom the reservation is atomic against.
    type Scope: Scope;

    /// What to call [`PerLock`](super::PerLock) with it.
    const PER_LOCK: &'static str;

    /// What to call [`Bundled`](super::Bundled) with it.
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

/// For threads on any CPU: a full fence at each of the two places where a processor could let a
/// load pass a store.
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

/// For threads that run on one CPU, as B91's did: no fence, since a context switch lies between
/// what one thread does and what another sees.
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

/// A group of threads that run on one CPU, and what makes [`Unfenced`] reservations usable:
/// variables of this strength are [`Sync`], since whoever implements this has promised that only
/// such threads reach them.
///
/// ```
/// use atomseq_papers::reservation::{Bundle, OneCpu, PerLock, Unfenced};
/// use atomseq::mutex::TestAndSet;
///
/// struct Pinned;
///
/// // SAFETY: this program has one thread, and it is pinned below; nobody else implements this with the same bundle.
/// unsafe impl OneCpu for Pinned {
///     fn bundle() -> &'static Bundle {
///         static BUNDLE: Bundle = Bundle::new();
///         &BUNDLE
///     }
/// }
///
/// # #[cfg(target_os = "linux")] {
/// // SAFETY: plain old data, and this thread.
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
/// Every thread that uses an [`Unfenced`] reservation of this group runs on the same CPU while it
/// does, and so has an affinity with that one CPU only, which nobody changes. `bundle` returns the
/// same one always, and that is this group's alone.
pub unsafe trait OneCpu: 'static {
    /// The group's own [`Bundle`], for [`Bundled`](super::Bundled).
    fn bundle() -> &'static Bundle;
}
