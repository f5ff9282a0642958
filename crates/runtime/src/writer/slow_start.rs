//! Making many objects without making the same mistake many times.

use std::future::Future;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;

/// What became of a slow start.
#[derive(Debug)]
pub struct SlowStart<T, E> {
    /// Results in the order of the items, as far as they were tried.
    pub tried: Vec<Result<T, E>>,
    /// Number of items that were not tried.
    pub left: usize,
}

/// Begins with one, and has one more under way for each that succeeds: one, two, four, … in the time of one, two, three. After a failure none is begun.
///
/// When a quota or an admission rule refuses what we make, it refuses all of them: one or two refusals tell as much as a thousand. There are no batches
/// that wait for their slowest: with many small sets, that is most of the time.
pub async fn slow_start<I, T, E, F>(items: Vec<I>, mut make: impl FnMut(I) -> F) -> SlowStart<T, E>
where
    F: Future<Output = Result<T, E>>,
{
    let mut items = items.into_iter().enumerate();
    let mut tried = Vec::with_capacity(items.len());
    let mut under_way = FuturesUnordered::new();
    let mut allowed: usize = 1;
    loop {
        let more = allowed.saturating_sub(under_way.len());
        for (position, item) in items.by_ref().take(more) {
            let made = make(item);
            under_way.push(async move { (position, made.await) });
        }
        let Some((position, result)) = under_way.next().await else {
            break;
        };
        allowed = if result.is_ok() && allowed > 0 { allowed + 1 } else { 0 };
        tried.push((position, result));
    }
    tried.sort_by_key(|(position, _)| *position);
    SlowStart {
        tried: tried.into_iter().map(|(_, result)| result).collect(),
        left: items.len(),
    }
}

impl<T, E> SlowStart<T, E> {
    /// Returns the first failure, if there was one.
    pub fn failure(&self) -> Option<&E> {
        self.tried.iter().find_map(|result| result.as_ref().err())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn run(items: usize, bad: usize) -> (usize, usize, usize) {
        let done = slow_start((0..items).collect(), |item| async move {
            if item == bad { Err(item) } else { Ok(item) }
        })
        .await;
        for (position, result) in done.tried.iter().enumerate() {
            assert_eq!(*result, if position == bad { Err(bad) } else { Ok(position) });
        }
        let failures = done.tried.iter().filter(|result| result.is_err()).count();
        (done.tried.len(), failures, done.left)
    }

    #[tokio::test]
    async fn given_no_failure_then_all_are_made() {
        for items in [0, 1, 2, 3, 7, 8, 100] {
            assert_eq!(run(items, usize::MAX).await, (items, 0, 0));
        }
    }

    #[tokio::test]
    async fn given_a_failure_then_no_more_are_begun_than_had_succeeded() {
        assert_eq!(run(100, 0).await, (1, 1, 99));
        assert_eq!(run(5, 4).await, (5, 1, 0));
        for bad in 1..50 {
            let (tried, failures, left) = run(200, bad).await;
            assert_eq!((failures, tried + left), (1, 200));
            assert!(tried <= 2 * bad + 1, "{tried} tried, number {bad} failed");
        }
    }

    #[tokio::test]
    async fn given_one_that_takes_long_then_the_others_do_not_wait_for_it() {
        let (release, wait) = tokio::sync::oneshot::channel();
        let (mut release, mut wait) = (Some(release), Some(wait));
        let done = slow_start((0..20).collect(), |item: i32| {
            let wait = (item == 1).then(|| wait.take()).flatten();
            let release = (item == 19).then(|| release.take()).flatten();
            async move {
                if let Some(release) = release {
                    release.send(()).map_err(|()| item)?;
                }
                match wait {
                    Some(wait) => wait.await.map_err(|_| item),
                    None => Ok(()),
                }
            }
        })
        .await;
        assert_eq!(done.tried, vec![Ok(()); 20]);
    }
}
