// Draws the charts of a report as the console does.

import { area, legend } from './charts.js';
import { count, precise } from './format.js';

for (const given of document.querySelectorAll('figure > script')) {
  const { title, times, series, timed } = JSON.parse(given.textContent);
  given.after(area(series, times, title, timed ? precise : count, { least: timed ? 0.001 : 2, utc: true, wide: given.parentElement.clientWidth }),
    legend(...series.map((each) => [each.kind, each.name])));
}
