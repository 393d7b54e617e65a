import { cpuMicros } from "../harness/processes.ts";
import { percentile } from "../harness/report.ts";
import { type Backend, stamped, stampOf, type Talker } from "./backend.ts";

type Latency = { p50: number; p95: number; p99: number };
export type Published = { sent: number; ack: Latency; delivery: Latency; missing: number; outOfOrder: number };
export type Ceiling = {
  perSecond: number;
  cpuMicros: number;
  /** The CPU time of each other process. */
  besidesMicros?: readonly number[];
};

const latency = (values: number[]): Latency => ({
  p50: percentile(values, 0.5),
  p95: percentile(values, 0.95),
  p99: percentile(values, 0.99),
});

const CONNECTING_AT_ONCE = 50;
/** A server that hangs up on a participant, or forgets an answer, must not hold up the measurement. */
const PATIENCE_MS = 10_000;
const TRIES = 3;

async function connectAll(backend: Backend, users: { userId: string; room: string }[]): Promise<Talker[]> {
  const talkers: Talker[] = [];
  let next = 0;
  await Promise.all(
    Array.from({ length: CONNECTING_AT_ONCE }, async () => {
      for (let i = next++; i < users.length; i = next++) {
        const user = users[i];
        if (user) talkers[i] = await connect(backend, user.userId, user.room);
      }
    }),
  );
  return talkers;
}

async function connect(backend: Backend, userId: string, room: string): Promise<Talker> {
  for (let tries = 0; tries < TRIES; tries += 1) {
    const connecting = backend.connect(userId, room);
    const talker = await Promise.race([connecting, Bun.sleep(PATIENCE_MS)]);
    if (talker) return talker;
    // Should it come through after all, it is one too many.
    connecting.then(
      ({ wire }) => wire.close(),
      () => {},
    );
  }
  throw new Error(`${backend.name} lets nobody in any more`);
}

/** 300 connections in 10 rooms, 60 of them send 3 messages a second each. */
export async function publishedScenario(backend: Backend, seconds: number): Promise<Published> {
  const [connections, rooms, senders, perSecond] = [300, 10, 60, 3];
  const users = Array.from({ length: connections }, (_, i) => ({ userId: `p${i}`, room: `published-${i % rooms}` }));
  await backend.prepare([...new Set(users.map(({ room }) => room))], users);
  const talkers = await connectAll(backend, users);

  const deliveries: number[] = [];
  let outOfOrder = 0;
  for (const talker of talkers) {
    const last = new Map<number, number>();
    talker.onMessage = (frame) => {
      const stamp = stampOf(frame);
      if (!stamp) return;
      deliveries.push(performance.now() - stamp.sentAt);
      if (stamp.number !== (last.get(stamp.sender) ?? 0) + 1) outOfOrder += 1;
      last.set(stamp.sender, stamp.number);
    };
  }
  const acks: number[] = [];
  const start = performance.now();
  await Promise.all(
    talkers.slice(0, senders).map(async (talker, sender) => {
      const pending: Promise<void>[] = [];
      for (let number = 1; number <= seconds * perSecond; number += 1) {
        // Spread evenly over the second, so that no two senders speak in step by accident of the loop.
        const due = start + ((number - 1) * 1000) / perSecond + (sender * 1000) / perSecond / senders;
        await Bun.sleep(Math.max(0, due - performance.now()));
        const at = performance.now();
        pending.push(talker.send(stamped(sender, number)).then(() => void acks.push(performance.now() - at)));
      }
      await Promise.race([Promise.all(pending), Bun.sleep(PATIENCE_MS)]);
    }),
  );
  const due = senders * seconds * perSecond;
  const expected = due * (connections / rooms);
  for (let i = 0; i < 200 && deliveries.length < expected; i += 1) await Bun.sleep(20);
  for (const { wire } of talkers) wire.close();
  return {
    sent: acks.length,
    ack: latency(acks),
    delivery: latency(deliveries),
    // Deliveries and acknowledgements that never came.
    missing: expected - deliveries.length + (due - acks.length),
    outOfOrder,
  };
}

/** The rate of acknowledged sends that 50 users with 20 sends in flight reach, each user alone in a room. */
export async function sendCeiling(backend: Backend, seconds: number, round: number): Promise<Ceiling> {
  const users = Array.from({ length: 50 }, (_, i) => ({ userId: `s${i}`, room: `send-${round}-${i}` }));
  await backend.prepare(
    users.map(({ room }) => room),
    users,
  );
  const talkers = await connectAll(backend, users);
  let acknowledged = 0;
  let running = true;
  const loops = talkers.flatMap((talker, sender) =>
    Array.from({ length: 20 }, async (_, lane) => {
      for (let number = 1; running; number += 1) {
        await talker.send(stamped(sender * 20 + lane, number));
        acknowledged += 1;
      }
    }),
  );
  const measured = await between(backend, seconds, () => acknowledged);
  running = false;
  await Promise.race([Promise.all(loops), Bun.sleep(2000)]);
  for (const { wire } of talkers) wire.close();
  return measured;
}

/**
 * The rate of deliveries to the sockets of one room, with 4 senders that have 8 sends in flight each. `wrong` counts sockets that
 * did not get each message once, and messages that reached a sender out of order.
 */
export async function deliveryCeiling(
  backend: Backend,
  seconds: number,
  round: number,
  sockets = 1000,
): Promise<Ceiling & { wrong: number }> {
  const room = `crowd-${round}`;
  const readers = Array.from({ length: sockets }, (_, i) => ({ userId: `r${i}`, room }));
  const writers = Array.from({ length: 4 }, (_, i) => ({ userId: `w${i}`, room }));
  await backend.prepare([room], [...readers, ...writers]);
  const talkers = await connectAll(backend, readers);
  const sending = await connectAll(backend, writers);
  for (const { wire } of talkers) wire.count();
  let running = true;
  let sent = 0;
  let outOfOrder = 0;
  for (const talker of sending) {
    const last = new Map<number, number>();
    talker.onMessage = (frame) => {
      const stamp = stampOf(frame);
      if (!stamp) return;
      if (stamp.number !== (last.get(stamp.sender) ?? 0) + 1) outOfOrder += 1;
      last.set(stamp.sender, stamp.number);
    };
  }
  const loops = sending.flatMap((talker, sender) =>
    Array.from({ length: 8 }, async (_, lane) => {
      for (let number = 1; running; number += 1) {
        await talker.send(stamped(sender * 8 + lane, number));
        sent += 1;
      }
    }),
  );
  const delivered = () => talkers.reduce((sum, { wire }) => sum + wire.texts, 0);
  const measured = await between(backend, seconds, delivered);
  running = false;
  await Promise.race([Promise.all(loops), Bun.sleep(PATIENCE_MS)]);
  const missedBy = () => talkers.filter(({ wire }) => wire.texts !== sent).length;
  for (let waited = 0; waited < PATIENCE_MS && missedBy() > 0; waited += 50) await Bun.sleep(50);
  const wrong = missedBy() + outOfOrder;
  for (const { wire } of [...talkers, ...sending]) wire.close();
  return { ...measured, wrong };
}

/** Rate and cost over a span in the middle, once everything runs. */
async function between(backend: Backend, seconds: number, count: () => number): Promise<Ceiling> {
  await Bun.sleep(1000);
  const used = () => [backend.pid, ...(backend.besides ?? [])].map(cpuMicros);
  const [before, cpu, at] = [count(), used(), performance.now()];
  await Bun.sleep(seconds * 1000);
  const done = count() - before;
  const perSecond = (done * 1000) / (performance.now() - at);
  const [own = 0, ...besides] = used().map((micros, index) => (micros - (cpu[index] ?? 0)) / done);
  return { perSecond, cpuMicros: own, besidesMicros: besides };
}
