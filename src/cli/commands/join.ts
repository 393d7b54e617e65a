import { existsSync } from "node:fs";
import { Command, InvalidArgumentError, Option } from "commander";
import { printable } from "../../kernel/printable.ts";
import { ApiFailure, createApi } from "../../ops/load-test/api.ts";
import type { NetworkFaults } from "../../rtc-client/participant/participant-events.ts";
import { CommandFailure } from "../failure.ts";
import { print } from "../print.ts";

type Options = {
  url: string;
  apiKey?: string;
  identity: string;
  publish: string[];
  say?: string;
  seconds: number;
  network: NetworkFaults;
  json?: boolean;
};

const HELP = `
Creates the room if it doesn't exist. Sources: tone, tone:HZ, bars, and the paths of WAV, IVF or Y4M files.

  stoa join standup --publish tone,bars --say "hello" --seconds 30
  stoa join standup --network loss=5%,delay=40,seed=7`;

export function joinCommand(): Command {
  return new Command("join")
    .description("join a room as a headless participant, for tests and demos")
    .argument("<room>", "name or id of the room")
    .addOption(new Option("--url <url>", "the server").env("STOA_URL").default("http://127.0.0.1:7000"))
    .addOption(new Option("--api-key <key>", "an API key of a project there").env("STOA_API_KEY"))
    .addOption(
      new Option("--identity <name>", "identity of the participant").default(
        `guest-${process.pid}`,
        "guest- and the process id",
      ),
    )
    .addOption(
      new Option("--publish <sources>", "media to publish, separated by commas")
        .argParser((list) => list.split(",").filter(Boolean))
        .default([], "nothing"),
    )
    .option("--say <text>", "message to send to the room's conversation")
    .option("--seconds <n>", "seconds to stay; 0: until stopped", seconds, 0)
    .addOption(
      new Option("--network <faults>", "simulate a bad network: loss=5%,delay=40,seed=7")
        .argParser(parseFaults)
        .default({}, "none"),
    )
    .option("--json", "print events as one JSON object per line")
    .addHelpText("after", HELP)
    .action(run);
}

async function run(name: string, options: Options): Promise<void> {
  const { url, apiKey, identity, publish, say } = options;
  if (apiKey === undefined) throw new CommandFailure("give an API key: --api-key, or STOA_API_KEY", true);
  if (!URL.canParse(url)) throw new CommandFailure(`${url} is not a URL`, true);
  for (const source of publish) {
    if (/^(tone|bars)(:|$)/.test(source) || existsSync(source)) continue;
    throw new CommandFailure(`there is nothing to publish called ${source}: tone, tone:HZ, bars, or a file`, true);
  }
  const api = createApi(new URL(url).origin, apiKey);
  const report = (event: string, fields: object) =>
    print(options.json ? JSON.stringify({ event, ...fields }) : sentence(event, fields));

  const room = await roomOf(api, name);
  const token = await api("POST", `/v1/rooms/${room}/rtc-tokens`, {
    participantIdentity: identity,
    permissions: { publish: true, subscribe: true, publishData: true },
  }).catch(refused);
  const { join } = await import("../../rtc-client/participant/participant.ts");
  const { promise: over, resolve } = Promise.withResolvers<Error | null>();
  // The signals are handled before joining, so that a participant who is stopped while publishing leaves the room.
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => resolve(null));
  const participant = await join(String(token.endpoint), String(token.token), { name: "stoa join" }).catch(refused);
  participant.on("closed", resolve);
  report("joined", { room: name, identity });
  participant.on("participantJoined", (other) => report("participantJoined", { identity: other.identity }));
  participant.on("participantLeft", (other, reason) => report("participantLeft", { identity: other.identity, reason }));
  participant.on("dataReceived", (message) => report("dataReceived", message));
  // The simulated impairments start after the handshake, so that they cannot prevent the connection.
  participant.network(options.network);
  for (const source of publish) {
    const track = await publishSource(participant, source);
    report("published", { source, trackId: track.id });
  }
  if (say !== undefined) await sayInChat(api, room, name, identity, say);

  if (options.seconds > 0) setTimeout(() => resolve(null), options.seconds * 1000);
  const error = await over;
  if (error) throw new CommandFailure(error.message);
  await participant.close();
  process.exit(0);
}

type Api = ReturnType<typeof createApi>;
type Participant = Awaited<ReturnType<typeof import("../../rtc-client/participant/participant.ts")["join"]>>;

const refused = (error: Error): never => {
  throw new CommandFailure(error.message);
};

/** The id of the room with this id or name, which is created if there is none. */
async function roomOf(api: Api, name: string): Promise<string> {
  const path = `/v1/rooms/${encodeURIComponent(name)}`;
  const unless =
    (...codes: string[]) =>
    (error: Error) =>
      error instanceof ApiFailure && codes.includes(error.code ?? "") ? null : refused(error);
  const room =
    // `..` leads to no route; its creation is refused with the reason.
    (await api("GET", path).catch(unless("SVC_ROOM_NOT_FOUND", "SVC_ROUTE_NOT_FOUND"))) ??
    (await api("POST", "/v1/rooms", { name }).catch(unless("SVC_CONFLICT"))) ??
    // Someone else has created it in the meantime.
    (await api("GET", path).catch(refused));
  return String(room.id);
}

async function publishSource(participant: Participant, source: string) {
  const { bars, tone } = await import("../../rtc-client/participant/participant.ts");
  const [what, hz] = source.split(":");
  try {
    if (what === "tone") return await participant.publishAudio(tone({ hz: Number(hz ?? 440) }));
    if (what === "bars") return await participant.publishVideo(bars());
    return await (source.endsWith(".wav") ? participant.publishAudio(source) : participant.publishVideo(source));
  } catch (error) {
    throw new CommandFailure(`${source}: ${(error as Error).message}`);
  }
}

async function sayInChat(api: Api, room: string, name: string, senderId: string, text: string): Promise<void> {
  const found = await api("GET", `/v1/chat/conversations/${room}`).catch(() => null);
  const conversation =
    found ?? (await api("POST", "/v1/chat/conversations", { name, type: "ROOM", roomId: room }).catch(refused));
  await api("POST", `/v1/chat/conversations/${conversation.id}/members`, { userId: senderId }).catch(refused);
  await api("POST", `/v1/chat/conversations/${conversation.id}/messages`, { text, senderId }).catch(refused);
}

function sentence(event: string, fields: object): string {
  const details = Object.entries(fields).map(([name, value]) => `${name} ${printable(String(value))}`);
  return [event, ...details].join("  ");
}

function seconds(value: string): number {
  const number = Number(value);
  if (!(number >= 0 && number <= 86_400)) throw new InvalidArgumentError("must be from 0 to 86400");
  return number;
}

/** `loss=5%,delay=40,seed=7` */
function parseFaults(value: string): NetworkFaults {
  const faults: NetworkFaults = {};
  for (const part of value.split(",")) {
    const [name, amount = ""] = part.split("=");
    const number = Number(amount.replace(/(%|ms)$/, ""));
    if (amount === "" || Number.isNaN(number)) throw new InvalidArgumentError(`cannot read ${part}`);
    if (name === "loss") faults.loss = amount.endsWith("%") ? number / 100 : number;
    else if (name === "delay") faults.delayMs = number;
    else if (name === "seed") faults.seed = number;
    else throw new InvalidArgumentError(`${name} is none of loss, delay, seed`);
  }
  if ((faults.loss ?? 0) < 0 || (faults.loss ?? 0) > 1) throw new InvalidArgumentError("loss is from 0 to 100%");
  return faults;
}
