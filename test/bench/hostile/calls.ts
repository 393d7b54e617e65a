/** Honest calls of two, in a process of their own: says when all are up, ends with stdin, tells how each one went. */
import { createApi } from "../../../src/ops/load-test/api.ts";
import {
  joinPublisher,
  joinSubscriber,
  type LoadParticipant,
  makeCertificate,
} from "../../../src/ops/load-test/participants.ts";

const [url = "", key = "", count = "0"] = process.argv.slice(2);
const api = createApi(url, key);

/** Each participant gets what the other sends. The longest time in which nothing arrives is the call's freeze. */
async function call(index: number) {
  const { id } = await api("POST", "/v1/rooms", { name: `call-${index}-${crypto.randomUUID()}` });
  const closes: number[] = [];
  const seat = async (participantIdentity: string) => {
    const permissions = { publish: true };
    const { token } = await api("POST", `/v1/rooms/${id}/rtc-tokens`, { participantIdentity, permissions });
    return {
      url,
      token: String(token),
      certificate: await makeCertificate(),
      onClose: (code: number) => closes.push(code),
    };
  };
  const publisher = await joinPublisher(await seat("ann"));
  const everyone: LoadParticipant[] = [publisher];
  let last = 0;
  let longest = 0;
  everyone.push(
    await joinSubscriber(await seat("ben"), [await publisher.trackId], () => {
      const now = performance.now();
      if (last > 0) longest = Math.max(longest, now - last);
      last = now;
    }),
  );
  return async () => {
    longest = Math.max(longest, performance.now() - last);
    const refused = closes.length;
    for (const one of everyone) await one.leave().catch(() => {});
    return { longest, refused };
  };
}

const running: Awaited<ReturnType<typeof call>>[] = [];
for (let index = 0; index < Number(count); index++) running.push(await call(index));
console.log("up");
for await (const _ of process.stdin) {
  // Input is ignored; its end is what matters.
}
console.log(JSON.stringify(await Promise.all(running.map((leave) => leave()))));
process.exit();
