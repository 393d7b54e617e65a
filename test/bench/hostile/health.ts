/** How long `/healthz` takes, asked a hundred times a second until stdin ends: in a process of its own, so that only the server is measured. */
import { watchTurns } from "./stalls.ts";

const [url = ""] = process.argv.slice(2);
const times: number[] = [];
let failed = 0;
// The delays of this process itself, which are part of a response's time but not the server's fault.
const { late } = watchTurns();
const timer = setInterval(async () => {
  const asked = performance.now();
  const ok = await fetch(`${url}/healthz`)
    .then((answer) => answer.ok)
    .catch(() => false);
  if (ok) times.push(performance.now() - asked);
  else failed += 1;
}, 10);
for await (const _ of process.stdin) {
  // Input is ignored; its end is what matters.
}
clearInterval(timer);
console.log(JSON.stringify({ times, failed, late: late() }));
process.exit();
