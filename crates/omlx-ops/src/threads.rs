//! The one pool of worker threads behind all CPU ops.
//!
//! A decode step makes a few hundred small parallel calls, so handing out work must cost about a microsecond: workers spin
//! briefly for the next call and then sleep, so an idle process uses no CPU. Which worker takes which task never changes a
//! result: tasks write disjoint outputs and each has its own fixed order of summation.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

static WANTED: AtomicUsize = AtomicUsize::new(0);
static POOL: OnceLock<Crew> = OnceLock::new();

/// How often a worker looks for the next call before it goes to sleep: well under a millisecond, longer than what lies between
/// two calls of a decode step.
const SPINS: usize = 20_000;

/// Sets how many threads the CPU ops use, the calling one included. Has an effect only before the first op runs;
/// 0 means one per physical core.
pub fn set_threads(threads: usize) {
    WANTED.store(threads, Ordering::Relaxed);
}

/// How many threads the CPU ops use.
pub fn threads() -> usize {
    crew().workers + 1
}

/// Physical cores, as far as the system tells; every logical one where it does not.
fn cores() -> usize {
    let logical = std::thread::available_parallelism().map_or(1, usize::from);
    let siblings = std::fs::read_to_string("/sys/devices/system/cpu/cpu0/topology/thread_siblings_list")
        .map_or(1, |list| list.trim().split([',', '-']).count().max(1));
    (logical / siblings).max(1)
}

fn crew() -> &'static Crew {
    POOL.get_or_init(|| {
        let wanted = WANTED.load(Ordering::Relaxed);
        Crew::new(if wanted == 0 { cores() } else { wanted }.clamp(1, 256) - 1)
    })
}

/// Runs `task(0..tasks)`, spread over the pool; returns when all are done. Panics of a task are passed on.
///
/// A call made while another thread uses the pool runs on its own thread alone.
pub(crate) fn for_each(tasks: usize, task: impl Fn(usize) + Sync) {
    if tasks > 1 && crew().run(tasks, &task) {
        return;
    }
    (0..tasks).for_each(task);
}

/// Cuts `out` into rows of `width` and fills them in parallel, at least `grain` elements at a time.
pub(crate) fn for_rows(out: &mut [f32], width: usize, grain: usize, fill: impl Fn(usize, &mut [f32]) + Sync) {
    let rows = out.len() / width.max(1);
    let per_task = grain.div_ceil(width.max(1)).max(rows.div_ceil(4 * threads())).max(1);
    let shared = SharedMut::new(out);
    for_each(rows.div_ceil(per_task), |task| {
        for row in task * per_task..((task + 1) * per_task).min(rows) {
            // SAFETY: each row belongs to exactly one task.
            fill(row, unsafe { shared.slice(row * width, width) });
        }
    });
}

/// A buffer that several tasks write, each its own part.
pub(crate) struct SharedMut<T> {
    start: *mut T,
    len: usize,
}

// SAFETY: access goes through the unsafe methods below, whose callers promise disjoint parts.
unsafe impl<T: Send> Sync for SharedMut<T> {}

impl<T> SharedMut<T> {
    pub(crate) fn new(buffer: &mut [T]) -> Self {
        Self { start: buffer.as_mut_ptr(), len: buffer.len() }
    }

    /// # Safety
    /// No two live slices may overlap, and the buffer must outlive them.
    #[expect(clippy::mut_from_ref, reason = "disjointness is the caller's promise")]
    pub(crate) unsafe fn slice(&self, at: usize, len: usize) -> &mut [T] {
        assert!(at + len <= self.len);
        // SAFETY: in bounds by the assertion; disjoint by the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(at), len) }
    }

    /// The spare room of `buffer`, which holds nothing yet: only [`Self::at`] may be used on it.
    pub(crate) fn spare(buffer: &mut Vec<T>) -> Self {
        let spare = buffer.spare_capacity_mut();
        Self { start: spare.as_mut_ptr().cast(), len: spare.len() }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// # Safety
    /// `at` is not beyond the buffer.
    pub(crate) unsafe fn at(&self, at: usize) -> *mut T {
        debug_assert!(at <= self.len);
        // SAFETY: by the caller's promise.
        unsafe { self.start.add(at) }
    }
}

/// One parallel call, living on the caller's stack until every worker has let go of it.
struct Call {
    task: *const (dyn Fn(usize) + Sync),
    tasks: usize,
    next: AtomicUsize,
    panic: Mutex<Option<Box<dyn std::any::Any + Send>>>,
}

impl Call {
    fn work(&self) {
        // SAFETY: the caller of `run` keeps the closure alive until all workers have left.
        let task = unsafe { &*self.task };
        let run = || {
            loop {
                let i = self.next.fetch_add(1, Ordering::Relaxed);
                if i >= self.tasks {
                    break;
                }
                task(i);
            }
        };
        if let Err(panic) = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)) {
            self.next.store(self.tasks, Ordering::Relaxed);
            lock(&self.panic).get_or_insert(panic);
        }
    }
}

/// What workers watch: `epoch` moves when a call is posted; whoever joins a call counts itself in `active`.
struct Board {
    epoch: AtomicUsize,
    active: AtomicUsize,
    posted: Mutex<Posted>,
    wake: Condvar,
}

#[derive(Default)]
struct Posted {
    call: Option<CallPtr>,
    sleepers: usize,
}

#[derive(Clone, Copy)]
struct CallPtr(*const Call);
// SAFETY: the call outlives its posting; see `Crew::run`.
unsafe impl Send for CallPtr {}

struct Crew {
    board: Arc<Board>,
    workers: usize,
    busy: Mutex<()>,
}

impl Crew {
    fn new(workers: usize) -> Self {
        let board = Arc::new(Board {
            epoch: AtomicUsize::new(0),
            active: AtomicUsize::new(0),
            posted: Mutex::default(),
            wake: Condvar::new(),
        });
        let started = (0..workers)
            .take_while(|i| {
                let board = Arc::clone(&board);
                let thread = std::thread::Builder::new().name(format!("omlx-ops-{i}"));
                thread.spawn(move || worker(&board)).is_ok()
            })
            .count();
        Self { board, workers: started, busy: Mutex::new(()) }
    }

    /// False when the pool is taken or has no workers; then nothing was run.
    fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) -> bool {
        if self.workers == 0 {
            return false;
        }
        let Ok(busy) = self.busy.try_lock() else { return false };
        // SAFETY: only the lifetime changes; `call` does not leave this function before every worker has let go of it.
        let task: *const (dyn Fn(usize) + Sync) =
            unsafe { std::mem::transmute::<_, &'static (dyn Fn(usize) + Sync)>(task) };
        let call = Call { task, tasks, next: AtomicUsize::new(0), panic: Mutex::new(None) };
        self.post(Some(CallPtr(&raw const call)));
        call.work();
        self.post(None);
        let mut spins = 0usize;
        while self.board.active.load(Ordering::Acquire) > 0 {
            spins += 1;
            if spins < SPINS { std::hint::spin_loop() } else { std::thread::yield_now() }
        }
        let panic = lock(&call.panic).take();
        drop(busy);
        if let Some(panic) = panic {
            std::panic::resume_unwind(panic);
        }
        true
    }

    /// Shows a call to the workers, or takes it down: nobody can join it afterwards.
    fn post(&self, call: Option<CallPtr>) {
        let mut posted = lock(&self.board.posted);
        posted.call = call;
        if call.is_some() {
            self.board.epoch.fetch_add(1, Ordering::Release);
            if posted.sleepers > 0 {
                self.board.wake.notify_all();
            }
        }
    }
}

fn worker(board: &Board) {
    let mut seen = 0;
    loop {
        let mut spins = 0;
        while board.epoch.load(Ordering::Acquire) == seen && spins < SPINS {
            std::hint::spin_loop();
            spins += 1;
        }
        let call = {
            let mut posted = lock(&board.posted);
            while board.epoch.load(Ordering::Acquire) == seen {
                posted.sleepers += 1;
                posted = board.wake.wait(posted).unwrap_or_else(PoisonError::into_inner);
                posted.sleepers -= 1;
            }
            seen = board.epoch.load(Ordering::Acquire);
            if posted.call.is_some() {
                board.active.fetch_add(1, Ordering::Relaxed);
            }
            posted.call
        };
        if let Some(CallPtr(call)) = call {
            // SAFETY: `run` waits for `active` to fall to zero before the call goes out of scope.
            unsafe { (*call).work() };
            board.active.fetch_sub(1, Ordering::Release);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
