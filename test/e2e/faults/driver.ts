import { readFileSync } from "node:fs";
import { join } from "node:path";
import { seededRandom } from "../../../src/kernel/net/impairment.ts";
import { failing, ok, type Receiver, startReceiver } from "../../features/webhooks/receiver.ts";
import { Call } from "./call.ts";
import { ChatUser } from "./chat-user.ts";
import { brokenPromises, undelivered } from "./checker.ts";
import { type Honest, persist } from "./honest.ts";
import { Hostile } from "./hostile.ts";
import { FAULTS, type Lengths, type World } from "./injectors.ts";
import { RestUser } from "./rest-user.ts";
import { Subject, type Usage } from "./subject.ts";
import { ConnectionWire, PacketWire } from "./wires.ts";

type FaultRun = Lengths & { binary: string; seconds: number; seed: number; progress: (line: string) => void };

type FaultReport = {
  faults: number;
  /** Broken guarantees; empty if all were kept. */
  broken: string[];
  figures: {
    chatMessages: number;
    chatReconnects: number;
    restRounds: number;
    calls: number;
    packets: number;
    webhooks: number;
    webhookRequests: number;
  } & Record<string, number>;
  /** Measured in the same process before the first client, with all clients, and after the last one left. */
  usage: { start: Usage; full: Usage; after: Usage };
};

const CHAT_USERS = 4;
const REST_USERS = 2;
const RECOVERED = 3;
const RECOVERY_WITHIN_MS = 90_000;
/** One in this many deliveries is refused at first. */
const REFUSE_EVERY = 10;
/** A silent socket is closed after 24 s. */
const LET_GO_WITHIN_MS = 60_000;
const DISK_TROUBLE = /database or disk is full|disk I\/O error|device reports errors/;
/** Connections to the receiver that wait for the next event. */
export const KEPT_DESCRIPTORS = 12;

/** All clients use the server in parallel while one fault follows the other; then what they were told is checked. */
export async function runFaults({ binary, seconds, seed, progress, ...lengths }: FaultRun): Promise<FaultReport> {
  const random = seededRandom(seed);
  const subject = await Subject.create(binary, 96 + seconds);
  const connections = await ConnectionWire.open(() => subject.url);
  const world: World = { subject, packets: new PacketWire(seed), connections };
  const receiver = startReceiver();
  const broken: string[] = [];
  try {
    const webhookSecret = await prepare(subject, receiver);
    const { honest, chat, rest, call } = startClients(world);
    const hostile = new Hostile(subject, await chatToken(subject, "mallory"));
    await recovered(honest, "the start", broken);
    let full = subject.usage();

    const endsAt = performance.now() + seconds * 1000;
    let faults = 0;
    for (let order = [...FAULTS]; faults < FAULTS.length || performance.now() < endsAt; ) {
      const fault = order.shift();
      if (!fault) {
        order = shuffled(FAULTS, random);
        continue;
      }
      const [pid, at] = [subject.pid, performance.now()];
      await fault.inject(world, lengths);
      const over = performance.now();
      await recovered(honest, fault.name, broken);
      // The resources of a process can be compared only with its own.
      if (subject.pid !== pid) full = subject.usage();
      faults++;
      progress(
        `${fault.name}: ${duration(over - at)}, all clients recovered after ${duration(performance.now() - over)}`,
      );
    }

    const endedAt = performance.now();
    await Promise.all([...honest.map((one) => one.stop()), hostile.stop()]);
    await Promise.all(chat.map((user) => user.leave()));
    await delivered(subject, receiver);
    await letGo(subject);
    progress(`all clients left, and everything was delivered and closed: ${duration(performance.now() - endedAt)}`);
    const after = subject.usage();
    const code = await subject.kill("SIGTERM");
    if (code !== 0) broken.push(`SIGTERM ended it with ${code}`);

    broken.push(...subject.crashes, ...hostile.complaints, ...honest.flatMap(({ complaints }) => complaints));
    broken.push(...brokenPromises(subject.dataDir, { chat, rest, received: receiver.received }, webhookSecret));
    broken.push(...leaks(subject), ...unforeseen(subject));
    const events = new Set(receiver.received.map(({ event }) => event.id));
    return {
      faults,
      broken,
      figures: {
        chatMessages: chat.reduce((sum, { sent }) => sum + sent.length, 0),
        chatReconnects: chat.reduce((sum, { reconnects }) => sum + reconnects, 0),
        restRounds: rest.reduce((sum, { done }) => sum + done, 0),
        calls: call.begun,
        packets: call.done,
        webhooks: events.size,
        webhookRequests: receiver.received.length,
        ...hostile.counts,
      },
      usage: { start: subject.atStart, full, after },
    };
  } finally {
    connections.close();
    world.packets.close();
    receiver.close();
    await subject.remove();
  }
}

async function prepare(subject: Subject, receiver: Receiver): Promise<string> {
  let requests = 0;
  receiver.reply = () => (++requests % REFUSE_EVERY === 0 ? failing() : ok());
  const { email, password, projectId } = subject;
  const login = await persist(subject, "POST", "/v1/auth/login", { body: { email, password } });
  const session = String(login.body.accessToken);
  const hook = { body: { url: receiver.url }, credential: session };
  const { secret } = (await persist(subject, "POST", `/v1/projects/${projectId}/webhooks`, hook)).body;
  const members = Array.from({ length: CHAT_USERS }, (_, i) => ({ userId: `chat-${i}` }));
  const common = { name: "common", members: [...members, { userId: "mallory" }] };
  await persist(subject, "POST", "/v1/chat/conversations", { body: common });
  const cookie = /stoa_refresh=([^;]+)/.exec(login.headers.get("set-cookie") ?? "")?.[1] ?? "";
  for (const value of [session, cookie, String(secret)]) subject.secrets.add(value);
  for (const file of ["secret", "sfu-secret"])
    subject.secrets.add(readFileSync(join(subject.dataDir, file), "utf8").trim());
  return String(secret);
}

async function chatToken(subject: Subject, userId: string): Promise<string> {
  return String((await persist(subject, "POST", "/v1/chat/tokens", { body: { userId } })).body.token);
}

function startClients({ subject, packets, connections }: World) {
  const chat = Array.from({ length: CHAT_USERS }, (_, i) => {
    // Half of them by way of a network that can fall silent.
    const address = i % 2 ? () => connections.url : () => subject.url;
    return new ChatUser(subject, { userId: `chat-${i}`, room: "common", address });
  });
  const rest = Array.from({ length: REST_USERS }, (_, i) => new RestUser(subject, `rest-${i}`, "common"));
  const call = new Call(subject, packets);
  const honest: Honest[] = [...chat, ...rest, call];
  return { honest, chat, rest, call };
}

/** Waits until every client has succeeded with something again. */
async function recovered(honest: readonly Honest[], after: string, broken: string[]): Promise<void> {
  const before = honest.map(({ done }) => done);
  const deadline = performance.now() + RECOVERY_WITHIN_MS;
  const stuck = () => honest.filter(({ done }, i) => done < (before[i] ?? 0) + RECOVERED);
  while (stuck().length > 0 && performance.now() < deadline) await Bun.sleep(50);
  for (const { name } of stuck()) broken.push(`${name} did not recover from ${after}`);
}

/** Every event has arrived. What was to be tried again by a clock that ran ahead is due when it is an hour later again. */
async function delivered(subject: Subject, receiver: Receiver): Promise<void> {
  subject.moveClock(2 * 3600);
  const deadline = performance.now() + RECOVERY_WITHIN_MS;
  while (undelivered(subject.dataDir, receiver.received) > 0 && performance.now() < deadline) await Bun.sleep(200);
}

/** Connections that fell silent never hang up: they are the server's to close. */
async function letGo(subject: Subject): Promise<void> {
  const deadline = performance.now() + LET_GO_WITHIN_MS;
  const held = () => subject.usage().descriptors - subject.atStart.descriptors;
  while (held() > KEPT_DESCRIPTORS && performance.now() < deadline) await Bun.sleep(200);
}

function leaks(subject: Subject): string[] {
  const log = subject.log();
  return [...subject.secrets]
    .filter((secret) => secret !== "" && log.includes(secret))
    .map((secret) => `a secret stands in the log: ${secret.slice(0, 12)}…`);
}

/** A disk that refuses is an error to tell the operator of; none of the other faults is. */
function unforeseen(subject: Subject): string[] {
  const lines = subject.log().split("\n");
  const errors = lines.filter((line) => /"level":"(error|fatal)"/.test(line) && !DISK_TROUBLE.test(line));
  const told = errors.map((line) => JSON.parse(line) as { msg: string; err?: { message: string } });
  return [...new Set(told.map(({ msg, err }) => `an error was logged: ${msg} (${err?.message})`))];
}

function shuffled<T>(items: readonly T[], random: () => number): T[] {
  return items
    .map((item) => ({ item, at: random() }))
    .sort((a, b) => a.at - b.at)
    .map(({ item }) => item);
}

const duration = (ms: number) => `${(ms / 1000).toFixed(1)} s`;
