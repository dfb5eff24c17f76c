'use strict';
// The wait of somebody with so many ahead, as waystation.waitingroom.estimates.estimate works it out.
const estimatedWait = ({ mu, before, theta, points, by_lot }, lane, ahead) => {
  const pace = mu[lane], lot = by_lot[lane];
  if (!(pace > 0)) return { known: false };
  if (lot) return { known: true, p10: lot[0], p50: lot[1], p90: lot[2] };
  const formula = (people) => {
    const share = theta * people / pace;
    return share < 1e-9 ? people / pace : Math.log1p(share) / theta;
  };
  const wanted = formula(Math.max(1, ahead + 1 + before[lane]));
  let since = 0, low = [0, 0, 0], slopes = low;
  for (const [people, ...factors] of points) {
    const until = formula(people);
    const high = factors.map((factor, each) => Math.max(low[each], factor * until));
    slopes = factors;
    if (wanted < until) {
      slopes = high.map((seconds, each) => (seconds - low[each]) / (until - since));
      break;
    }
    since = until;
    low = high;
  }
  const [p10, p50, p90] = low.map((seconds, each) => seconds + slopes[each] * (wanted - since));
  return { known: true, p10, p50, p90 };
};
// The latest time that somebody is promised, in seconds. A page shows minutes, so one of them is no
// change; and what is moved back once has time to spare, so that it need not be moved again.
const keptPromise = (promise, p90, now) => {
  const latest = now + p90;
  if (!promise) return { latest, moved: 0 };
  if (latest > promise.latest + 60) return { latest: now + 1.25 * p90, moved: promise.moved + 1 };
  return promise.moved ? promise : { latest: Math.min(latest, promise.latest), moved: 0 };
};
