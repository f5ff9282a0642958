//! Making many objects without making the same mistake many times.

use std::future::Future;

use futures::future::join_all;

/// What became of a slow start.
#[derive(Debug)]
pub struct SlowStart<T, E> {
    /// Results in the order of the items, as far as they were tried.
    pub tried: Vec<Result<T, E>>,
    /// Number of items that were not tried.
    pub left: usize,
}

/// Does one, then two, then four, … at the same time, and stops after a batch with a failure.
///
/// When a quota or an admission rule refuses what we make, it refuses all of them: one or two refusals tell as much as a thousand.
pub async fn slow_start<I, T, E, F>(items: Vec<I>, mut make: impl FnMut(I) -> F) -> SlowStart<T, E>
where
    F: Future<Output = Result<T, E>>,
{
    let mut items = items.into_iter();
    let mut tried = Vec::with_capacity(items.len());
    let mut batch = 1;
    while items.len() > 0 {
        let results = join_all(items.by_ref().take(batch).map(&mut make)).await;
        let failed = results.iter().any(Result::is_err);
        tried.extend(results);
        if failed {
            break;
        }
        batch *= 2;
    }
    SlowStart {
        tried,
        left: items.len(),
    }
}

impl<T, E> SlowStart<T, E> {
    /// The first failure, if there was one.
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
    async fn given_a_failure_then_its_batch_ends_and_the_rest_is_left() {
        assert_eq!(run(100, 0).await, (1, 1, 99));
        assert_eq!(run(100, 1).await, (3, 1, 97));
        assert_eq!(run(100, 5).await, (7, 1, 93));
        assert_eq!(run(5, 4).await, (5, 1, 0));
    }
}
