// suite: all
import { afterAll, afterEach, describe, expect, test } from "bun:test";
import fc from "fast-check";
import { SignJWT } from "jose";
import { type OperationName, perform } from "../../src/cli/operations.ts";
import { findFfmpeg } from "../../src/features/recordings/composition/ffmpeg.ts";
import { trackSid } from "../../src/protocol/media/livekit-sids.ts";
import { OIDC_CLIENT, oidcServer } from "../harness/oidc.ts";
import { type Operation, operationsOf } from "../harness/operations.ts";
import { rtcServer } from "../harness/rtc.ts";
import { type Tenant, tenantOf } from "../harness/tenant.ts";
import { grantedRequests } from "../spec/contract/granted.ts";
import { type Asked, validRequests } from "../spec/contract/requests.ts";
import { UNLIMITED } from "../spec/contract/unlimited.ts";

/** Mutations without an entry, each with the reason; a new route is either audited or has its reason here. */
const NOT_AUDITED: [RegExp, string][] = [
  [/ \/v1\/auth\//, "an account's own sign-in and settings, which belong to no project"],
  [/ \/whip\/| \/whep\/| \/v1\/telemetry\/| \/v1\/storage\//, "what participants and users themselves send"],
  [/ \/v1\/chat\/(messages|rings|attachments|blocks|push)\b/, "what users say and settle among themselves"],
  [/ \/v1\/chat\/conversations\b/, "the conversation's own event log holds it, with its author"],
  [
    /POST \/v1\/chat\/tokens$|\/rtc-tokens$|POST \/v1\/live-streams\/\{streamId\}\/(hosts|viewer-tokens)$/,
    "backends mint tokens all the time, and each token has its record",
  ],
  [
    /POST \/v1\/live-streams\/\{streamId\}\/leave$|\/rooms\/\{id\}\/data$/,
    "traffic of the application, not administration",
  ],
  [
    /POST (\/v1\/projects\/\{projectId\})?\/v?1?\/?(rooms|live-streams)$/,
    "the record itself shows when it was created",
  ],
  [/\/webhooks\/\{webhookId\}\/(test|recover|deliveries)/, "it changes nothing; each delivery has its record"],
  [/\/connections\/\{connectionId\}\/dump$/, "a measurement of a connection, with its own record"],
  [/ \/v1\/rtc\/servers\/(register$|\{name\}\/heartbeat$)/, "a media node's own reports"],
];

const provider = await oidcServer(["http://localhost/oauth/acme/callback"]);
const server = await rtcServer({
  ...UNLIMITED,
  EGRESS_MAX_RUNNING: 10,
  OAUTH: { acme: { issuer: provider.issuer, ...OIDC_CLIENT } },
});
afterAll(async () => {
  await server.close();
  await provider.close();
});

// A drained node takes no rooms of further tenants.
afterEach(() => server.runtime.write((unit) => void server.services.fleet.undrain(unit, "n1")));

type Entry = { action: string; actorType: string; actorId: string | null; actorName: string | null };
const entries = (): Entry[] =>
  server.runtime.db.$client
    .query<Entry, []>(
      "SELECT action, actor_type AS actorType, actor_id AS actorId, actor_name AS actorName FROM audit_entries ORDER BY rowid",
    )
    .all();

async function ask({ method, path }: Operation, credential: string | undefined, asked: Asked): Promise<number> {
  const values = asked.path.values();
  const filled = path.replaceAll(/\{\w+\}/g, () => encodeURIComponent(values.next().value ?? ""));
  const query = asked.query.length > 0 ? `?${new URLSearchParams(asked.query)}` : "";
  const { status } = await server.call(method, filled + query, {
    key: credential,
    body: asked.body,
    headers: Object.fromEntries(asked.headers),
  });
  return status;
}

const mutations = (await operationsOf(server)).filter(
  ({ name, method, responses }) =>
    method !== "GET" && !responses.has(101) && !NOT_AUDITED.some(([pattern]) => pattern.test(name)),
);

describe("every administrative mutation of the API leaves an entry with its actor", () => {
  for (const operation of mutations) {
    for (const kind of operation.credentials) {
      if (kind === "chatToken") continue;
      test(`${operation.name} by ${kind}`, async () => {
        const tenant: Tenant = await tenantOf(server, { operator: true });
        const special = grantedRequests(server, tenant, provider)[operation.name];
        let before = entries().length;
        let succeeded = false;
        if (special) {
          const { credential = tenant.credentials[kind], ...asked } = await special();
          before = entries().length;
          succeeded =
            (await ask(operation, credential, { path: [], query: [], body: undefined, headers: [], ...asked })) < 300;
        } else {
          for (const asked of fc.sample(validRequests(operation, tenant), { numRuns: 40, seed: 7 })) {
            before = entries().length;
            // A PATCH without a field changes nothing.
            if (operation.method === "PATCH" && Object.keys(Object(asked.body)).length === 0) continue;
            succeeded = (await ask(operation, tenant.credentials[kind], asked)) < 300;
            if (succeeded) break;
          }
        }
        expect(succeeded).toBe(true);
        const [entry] = entries().slice(before);
        expect(entry).toMatchObject(
          kind === "apiKey"
            ? { actorType: "api_key", actorId: expect.any(String), actorName: expect.any(String) }
            : { actorType: "user", actorId: expect.any(String) },
        );
      });
    }
  }
});

describe("every administrative call of LiveKit's server API leaves an entry with the API key", () => {
  const READS = /^(List|Get)/;
  /** A room's record shows when it was created; data and subscriptions are traffic of the application. */
  const EXEMPT = ["CreateRoom", "SendData", "UpdateSubscriptions", "PerformRpc"];
  const GRANTS = { roomAdmin: true, roomCreate: true, roomRecord: true, ingressAdmin: true };
  const methods = Object.entries(server.services.livekitClients.services)
    .filter(([service]) => service !== "livekit.Egress" || findFfmpeg() !== null)
    .flatMap(([service, own]) => Object.keys(own).map((method) => ({ service, method })));

  async function body(method: string, tenant: Tenant, room: string): Promise<object> {
    const { identity = "", trackId = "" } = tenant.ids;
    const composition = { roomName: room, fileOutputs: [{ filepath: crypto.randomUUID() }] };
    const encoder = { inputType: "WHIP_INPUT", roomName: room, participantIdentity: "encoder" };
    const bodies: Record<string, object> = {
      MutePublishedTrack: { room, identity, trackSid: trackSid(trackId), muted: true },
      UpdateParticipant: { room, identity, name: "renamed" },
      MoveParticipant: { room, identity, destinationRoom: `${room}-other` },
      ForwardParticipant: { room, identity, destinationRoom: `${room}-other` },
      UpdateRoomMetadata: { room, metadata: "changed" },
      CreateDispatch: { room, agentName: "helper" },
      StartRoomCompositeEgress: composition,
      StartParticipantEgress: { ...composition, identity },
      StartTrackCompositeEgress: { ...composition, videoTrackId: trackSid(trackId) },
      StartTrackEgress: { roomName: room, trackId: trackSid(trackId), file: { filepath: crypto.randomUUID() } },
      CreateIngress: encoder,
    };
    if (["UpdateLayout", "UpdateStream", "StopEgress"].includes(method)) {
      const { body: begun } = await call("livekit.Egress", "StartRoomCompositeEgress", tenant, room, composition);
      return { egressId: begun.egressId, ...(method === "UpdateLayout" && { layout: "speaker" }) };
    }
    if (["UpdateIngress", "DeleteIngress"].includes(method)) {
      const { body: made } = await call("livekit.Ingress", "CreateIngress", tenant, room, encoder);
      return { ingressId: made.ingressId };
    }
    if (method === "DeleteDispatch") {
      const { body: made } = await call("livekit.AgentDispatchService", "CreateDispatch", tenant, room, {
        room,
        agentName: "helper",
      });
      return { room, dispatchId: made.id };
    }
    return bodies[method] ?? { room, identity };
  }

  async function call(service: string, method: string, tenant: Tenant, room: string, body: object) {
    const [, , publicId = ""] = tenant.credentials.apiKey.split(/[_.]/);
    const secret = new TextEncoder().encode(server.services.apiKeys.signingSecret(publicId));
    const key = await new SignJWT({
      video: { ...GRANTS, room, destinationRoom: `${room}-other` },
    })
      .setProtectedHeader({ alg: "HS256" })
      .setIssuer(publicId)
      .setIssuedAt(Math.floor(server.clock.now() / 1000))
      .setExpirationTime(Math.floor(server.clock.now() / 1000) + 600)
      .sign(secret);
    return server.call("POST", `/twirp/${service}/${method}`, { key, body });
  }

  for (const { service, method } of methods.filter((one) => !READS.test(one.method) && !EXEMPT.includes(one.method))) {
    test(method, async () => {
      const tenant = await tenantOf(server);
      const room = `${tenant.marker}-room`;
      const asked = await body(method, tenant, room);
      const before = entries().length;
      const answering = call(service, method, tenant, room, asked);
      // A removal is answered once the second has passed up to which tokens are void.
      const advance = setInterval(() => server.clock.advance(1_000), 10);
      const { status, text } = await answering.finally(() => clearInterval(advance));
      expect([status, status === 200 ? "" : text]).toEqual([200, ""]);
      expect(entries().slice(before)).toMatchObject([{ actorType: "api_key", actorName: expect.any(String) }]);
    });
  }
});

test("every change on the command line leaves an entry", async () => {
  const { projectId } = await tenantOf(server, { operator: true });
  const change = async <Name extends OperationName>(name: Name, input: Parameters<typeof perform<Name>>[3]) => {
    const before = entries().length;
    const result = await perform(server.services, server.runtime, name, input);
    expect([name, entries().slice(before)]).toMatchObject([name, [{ actorType: "command_line", actorId: null }]]);
    return result;
  };
  const created = { project: projectId, createProject: false, name: "cli", environment: "DEVELOPMENT" as const };
  const key = await change("keys create", created);
  await change("keys secret", { key: key.publicId });
  await change("keys revoke", { key: key.publicId });
  const node = await change("node-keys create", { name: "n7" });
  await change("node-keys revoke", { key: node.publicId });
});

test("operators read the entries about the installation, others do not", async () => {
  const operator = await server.session({ operator: true });
  const other = await server.session();
  await perform(server.services, server.runtime, "node-keys create", { name: "n8" });
  const { text } = await server.call("GET", "/v1/audit-logs?action=node_key.created", { key: operator.token });
  expect(JSON.parse(text)[0]).toMatchObject({
    action: "node_key.created",
    resourceType: "node_key",
    metadata: { name: "n8" },
    projectId: null,
    environment: null,
    actorType: "command_line",
  });
  expect((await server.call("GET", "/v1/audit-logs", { key: other.token })).status).toBe(403);
});
