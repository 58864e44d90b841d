//! Who waits for what, in this process: desktops for work, assistants for the end of a run.
//!
//! Nothing here is needed for correctness. A wake-up that is lost, by a restart or a dropped connection, is made
//! good by the desktop's next poll and the assistant's next call.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use protocol::{CommandId, DeviceId, ProjectId};
use tokio::sync::Notify;

/// The waiting rooms.
#[derive(Debug, Default)]
pub(crate) struct Wakes {
    desktops: Mutex<HashMap<DeviceId, Arc<Desktop>>>,
    runs: Mutex<HashMap<CommandId, Arc<Notify>>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One desktop's room.
#[derive(Debug, Default)]
struct Desktop {
    state: Mutex<DesktopState>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct DesktopState {
    /// Projects with news that no wait has been answered for. A wait takes them away: a desktop that is busy
    /// would otherwise be woken again and again for a command that it cannot take yet.
    news: HashSet<ProjectId>,
    /// Counts the waits: the latest one is the live one. An earlier one belongs to a connection that broke
    /// without telling, as after a laptop's sleep, and must not swallow the news.
    waits: u64,
}

impl Wakes {
    /// Tells a desktop that a command was queued, or is to be cancelled, in a project.
    pub(crate) fn wake_desktop(&self, device: &DeviceId, project: &ProjectId) {
        let desktop = self.desktop(device).0;
        locked(&desktop.state).news.insert(project.clone());
        desktop.changed.notify_waiters();
    }

    /// Begins to listen. To be called before looking whether there is work, so that none falls in between.
    pub(crate) fn listen(&self, device: &DeviceId) -> Listener {
        let (desktop, is_new) = self.desktop(device);
        let wait = {
            let mut state = locked(&desktop.state);
            state.waits += 1;
            state.waits
        };
        desktop.changed.notify_waiters();
        Listener { desktop, wait, is_new }
    }

    fn desktop(&self, device: &DeviceId) -> (Arc<Desktop>, bool) {
        let mut desktops = locked(&self.desktops);
        if let Some(desktop) = desktops.get(device) {
            return (Arc::clone(desktop), false);
        }
        let desktop = Arc::<Desktop>::default();
        desktops.insert(device.clone(), Arc::clone(&desktop));
        (desktop, true)
    }

    /// Begins to watch a run. To be called before looking where it stands.
    pub(crate) fn watch(self: &Arc<Self>, id: CommandId) -> Watch {
        let ended = Arc::clone(locked(&self.runs).entry(id).or_default());
        Watch { wakes: Arc::clone(self), id, ended }
    }

    /// Tells those who watch a run that it is over.
    pub(crate) fn run_ended(&self, id: &CommandId) {
        if let Some(ended) = locked(&self.runs).get(id) {
            ended.notify_waiters();
        }
    }
}

/// One wait of one desktop.
#[derive(Debug)]
pub(crate) struct Listener {
    desktop: Arc<Desktop>,
    wait: u64,
    is_new: bool,
}

impl Listener {
    /// Whether this process has not heard of the desktop before, so that only the store knows what is waiting.
    pub(crate) fn is_new(&self) -> bool {
        self.is_new
    }

    /// Ends with true when there is news for one of the projects, with false when a later wait takes over.
    pub(crate) async fn news(&self, projects: &[ProjectId]) -> bool {
        loop {
            let changed = self.desktop.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if let Some(answer) = self.look(projects) {
                return answer;
            }
            changed.await;
        }
    }

    fn look(&self, projects: &[ProjectId]) -> Option<bool> {
        let mut state = locked(&self.desktop.state);
        if state.waits != self.wait {
            return Some(false);
        }
        let before = state.news.len();
        state.news.retain(|project| !projects.contains(project));
        (state.news.len() < before).then_some(true)
    }
}

/// One watch of one run.
#[derive(Debug)]
pub(crate) struct Watch {
    wakes: Arc<Wakes>,
    id: CommandId,
    ended: Arc<Notify>,
}

impl Watch {
    /// The next end of the run. Make it before looking: it catches what happens from then on.
    pub(crate) fn ended(&self) -> tokio::sync::futures::Notified<'_> {
        self.ended.notified()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut runs = locked(&self.wakes.runs);
        // The map's own and this one: nobody else is watching.
        if Arc::strong_count(&self.ended) <= 2 {
            runs.remove(&self.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids() -> (DeviceId, ProjectId, ProjectId) {
        ("dev_1".parse().unwrap(), "prj_a".parse().unwrap(), "prj_b".parse().unwrap())
    }

    #[tokio::test]
    async fn news_that_came_before_the_wait_is_told_once() {
        let (device, a, b) = ids();
        let wakes = Wakes::default();
        wakes.wake_desktop(&device, &a);
        let wait = wakes.listen(&device);
        assert!(wait.news(std::slice::from_ref(&a)).await);
        let next = wakes.listen(&device);
        assert_eq!(next.look(&[a]), None, "a busy desktop must not be woken twice for the same command");
        assert_eq!(next.look(&[b]), None);
    }

    #[tokio::test]
    async fn a_wait_is_deaf_to_other_projects_but_keeps_their_news() {
        let (device, a, b) = ids();
        let wakes = Wakes::default();
        let wait = wakes.listen(&device);
        wakes.wake_desktop(&device, &b);
        assert_eq!(wait.look(&[a]), None);
        assert_eq!(wait.look(&[b]), Some(true));
    }

    #[tokio::test]
    async fn a_later_wait_takes_over_from_one_whose_connection_broke() {
        let (device, a, _) = ids();
        let wakes = Wakes::default();
        let dead = wakes.listen(&device);
        let live = wakes.listen(&device);
        wakes.wake_desktop(&device, &a);
        assert!(!dead.news(std::slice::from_ref(&a)).await);
        assert!(live.news(&[a]).await);
    }

    #[tokio::test]
    async fn a_watched_run_leaves_nothing_behind() {
        let wakes = Arc::<Wakes>::default();
        let id = CommandId::new();
        let (one, two) = (wakes.watch(id), wakes.watch(id));
        let (first, second) = (one.ended(), two.ended());
        wakes.run_ended(&id);
        first.await;
        second.await;
        drop(one);
        assert_eq!(locked(&wakes.runs).len(), 1, "the other one still watches");
        drop(two);
        assert!(locked(&wakes.runs).is_empty());
    }
}
