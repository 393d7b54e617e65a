import { existsSync } from "node:fs";
import { join } from "node:path";
import { createIceServers, ownTurnUrls } from "../../features/rooms/ice-servers.ts";
import { createKeyring, secretFromFile } from "../../kernel/crypto/secrets.ts";
import { messageOf } from "../../kernel/error-message.ts";
import type { Address } from "../../network/turn/address.ts";
import { type TurnClient, TurnRefused } from "../../network/turn/client.ts";
import { type Check, type CheckContext, type CheckGroup, fail, pass, warn, withoutServer } from "./check.ts";
import { createStunProbe } from "./probe.ts";
import { allocateRelay, turnTarget, withTurn } from "./turn-client.ts";

/** Targets that would let clients reach this machine's network through the relay. */
const FORBIDDEN: readonly Address[] = [
  { address: "127.0.0.1", port: 22 },
  { address: "169.254.169.254", port: 80 },
  { address: "192.0.2.1", port: 9 },
];
const SSH_PORT = 22;
const ANY_CHANNEL = 0x4000;

type Relay = { url: string; username: string; credential: string; isOwn: boolean };

/** Uses the credentials that a client would get. */
export const checkTurn: CheckGroup = async (context) => {
  const relays = relaysOf(context);
  const own = relays.filter(({ isOwn }) => isOwn);
  const others = relays.filter(({ isOwn }) => !isOwn);
  if (relays.length === 0) {
    return [
      pass("turn", "none: clients reach the media ports by UDP or TCP"),
      pass("turn-closed", "there is no relay here"),
    ];
  }
  const checks = await Promise.all([
    ...own.map((relay) => checkRelayPath(context, relay)),
    ...others.map(checkAllocation),
  ]);
  const [first] = own;
  const closed = first ? await checkClosed(context, first) : pass("turn-closed", "there is no relay here");
  return [...checks, closed];
};

function relaysOf({ config, now }: CheckContext): Relay[] {
  const hasSecret = config.STOA_SECRET !== undefined || existsSync(join(config.DATA_DIR, "secret"));
  const secret = config.STOA_SECRET ?? (hasSecret ? secretFromFile(config.DATA_DIR, "secret") : "");
  const own = ownTurnUrls(config);
  const holder = { id: "doctor", identity: "doctor" };
  const servers = createIceServers({ config, keyring: createKeyring(secret) })(holder, now + 60_000);
  return servers.flatMap(({ urls, username = "", credential = "" }) =>
    [urls].flat().map((url) => ({ url, username, credential, isOwn: own.includes(url) })),
  );
}

async function checkAllocation({ url, username, credential }: Relay): Promise<Check> {
  try {
    return pass("turn", `${url} gives a relay: ${await allocateRelay(turnTarget(url), username, credential)}`);
  } catch (error) {
    const remedy = "Compare TURN_SECRET with static-auth-secret, and let the TURN server's ports in.";
    return fail("turn", `${url}: ${messageOf(error)}`, remedy);
  }
}

/** Sends through TLS and the relay to every media port and waits for the responses. */
async function checkRelayPath(context: CheckContext, { url, username, credential }: Relay): Promise<Check> {
  const { running } = context;
  if (!running) return withoutServer("turn", context);
  const remedy = "Let EDGE_PORT in, and point DOMAIN at this machine; nothing else may end TLS before it.";
  const address = running.announce.find((candidate) => !candidate.includes(":"));
  try {
    if (address === undefined) throw new Error("no IPv4 address is announced");
    await withTurn(turnTarget(url), username, credential, async (client) => {
      await client.allocate();
      for (const port of running.mediaPorts) await requireResponse(client, { address, port }, running.probe);
      await client.release();
    });
    return pass("turn", `${url} relays to media port ${running.mediaPorts.join(", ")}`);
  } catch (error) {
    return fail("turn", `${url}: ${messageOf(error)}`, remedy);
  }
}

async function requireResponse(
  client: TurnClient,
  media: Address,
  probe: { ufrag: string; pwd: string },
): Promise<void> {
  const { request, isResponse } = createStunProbe(probe);
  await client.permit(media);
  const { promise, resolve } = Promise.withResolvers<void>();
  client.onData = (data) => void (isResponse(data) && resolve());
  client.send(request, media);
  await promise;
}

async function checkClosed(context: CheckContext, { url, username, credential }: Relay): Promise<Check> {
  const { running } = context;
  if (!running) return withoutServer("turn-closed", context);
  try {
    await withTurn(turnTarget(url), username, credential, async (client) => {
      await client.allocate();
      const announced = running.announce.filter((address) => !address.includes(":"));
      const foreign = FORBIDDEN.filter(({ address }) => !announced.includes(address));
      for (const peer of foreign) await requireRefusal(client.permit(peer), peer.address);
      // A permission covers all ports of an IP address; a channel includes the port.
      for (const address of announced) {
        await requireRefusal(client.bind(ANY_CHANNEL, { address, port: SSH_PORT }), `${address}:${SSH_PORT}`);
      }
      await client.release();
    });
    return pass("turn-closed", "it relays to media ports only");
  } catch (error) {
    if (error instanceof RelayOpen)
      return fail("turn-closed", `${url}: ${error.message}`, "Set TURN to off, and report it.");
    // If the relay cannot be reached, for example because its name does not resolve, nothing is known about its
    // openness.
    return warn("turn-closed", `not checked, ${url}: ${messageOf(error)}`, "See the check `turn` first.");
  }
}

class RelayOpen extends Error {}

async function requireRefusal(request: Promise<void>, peer: string): Promise<void> {
  const code = await request.then(
    () => 0,
    (error: unknown) => {
      if (error instanceof TurnRefused) return error.code;
      throw error;
    },
  );
  if (code !== 403) throw new RelayOpen(`it does not refuse ${peer} (${code})`);
}
