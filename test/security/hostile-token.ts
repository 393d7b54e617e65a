/** Attempts of the holder of a genuine token beyond its scope: other conversations, other rooms, other users' names. */
import { expect } from "bun:test";
import { ActiveSpeakerUpdate, DataPacket, SpeakerInfo, UserPacket } from "@livekit/protocol";
import { join as joinRoom, tone } from "../../src/rtc-client/participant/participant.ts";
import { type RtcRefused, SignalingClient } from "../../src/rtc-client/signaling-client.ts";
import { decryptPush, newBrowser } from "../features/push/browser.ts";
import { RawClient } from "../gateways/livekit/harness/raw-client.ts";
import { RawWorker } from "../gateways/livekit/harness/raw-worker.ts";
import { createApi } from "../harness/api.ts";
import { until } from "../nodes/remote/until.ts";
import type { AttackedServer, AttackedTenant } from "./attacked-server.ts";
import { HostileParticipant } from "./hostile-participant.ts";

type Stage = { server: AttackedServer; owner: AttackedTenant };

const codeOf = (work: Promise<unknown>) =>
  work.then(
    () => "done",
    ({ code }: RtcRefused) => code,
  );

/** Two conversations of ann and eve, each with a room, and eve's tokens. */
async function conversations({ owner, server }: Stage) {
  const eve = crypto.randomUUID();
  const create = async () => {
    const members = [{ userId: "ann" }, { userId: eve }];
    const body = { name: `c-${crypto.randomUUID()}`, members, roomId: await owner.room() };
    return String((await owner.call("POST", "/v1/chat/conversations", body)).body.id);
  };
  const mint = async (body: object) => {
    const { token, tokenId } = (await owner.call("POST", "/v1/chat/tokens", { userId: eve, ...body })).body;
    return { ...createApi(server.url, String(token)), tokenId: String(tokenId) };
  };
  const say = (id: string, text: string) =>
    owner.call("POST", `/v1/chat/conversations/${id}/messages`, { senderId: "ann", text });
  const ring = async (id: string) => {
    const { body } = await owner.call("POST", `/v1/chat/conversations/${id}/rings`, { userId: "ann" });
    await owner.call("POST", `/v1/chat/rings/${body.id}/cancel`);
  };
  return { own: await create(), other: await create(), mint, say, ring };
}

/** A push service of the attacker, and the texts that it can read. */
function pushService() {
  const texts: string[] = [];
  const browser = newBrowser();
  const service = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    async fetch(request) {
      texts.push(decryptPush(browser, Buffer.from(await request.arrayBuffer())).toString());
      return new Response(null, { status: 201 });
    },
  });
  const subscription = { endpoint: `http://127.0.0.1:${service.port}/eve`, keys: browser.keys };
  return { texts, subscription, close: () => service.stop(true) };
}

/** 70,000 empty fields in 140 KB. */
const field = (no: number) => Buffer.alloc(140_000).fill(Buffer.of((no << 3) | 2, 0));

const PUBLISHES = { permissions: { publish: true, publishData: true } };

async function lobbyOf({ server, owner }: Stage) {
  const name = crypto.randomUUID();
  const roomId = String((await owner.call("POST", "/v1/rooms", { name, lobby: true })).body.id);
  const client = async (identity: string, permissions: object) => {
    const { token } = await owner.mint(roomId, identity, { permissions });
    return new SignalingClient({ url: server.url, token });
  };
  const host = await client("host", { publish: true, host: true });
  const guest = await client("guest", { publish: true, admit: true });
  await host.join();
  await guest.join();
  return { name, roomId, client, host, guest };
}

export const TOKEN_ATTACKS: Record<string, (stage: Stage) => Promise<void>> = {
  async "a chat token of one conversation gets no push of another, and none once it is revoked"(stage) {
    const { own, other, mint, say } = await conversations(stage);
    const attacker = pushService();
    const limited = await mint({ conversations: [own] });
    const blind = await mint({ scopes: ["chat:send"] });
    const subscribe = (token: typeof limited) =>
      token.call("POST", "/v1/chat/push/subscriptions", attacker.subscription);
    expect((await subscribe(blind)).status).toBe(403);
    expect((await subscribe(limited)).status).toBe(201);
    await say(other, "a secret");
    await say(own, "not for long");
    await until(() => attacker.texts.length > 0);
    expect(attacker.texts.join()).toContain("not for long");
    expect((await stage.owner.call("DELETE", `/v1/chat/tokens/${limited.tokenId}`)).status).toBe(204);
    await say(own, "another secret");
    // The same push service gets what follows of a token that is valid.
    const full = await mint({});
    expect((await subscribe(full)).status).toBeLessThan(300);
    await say(own, "the end");
    await until(() => attacker.texts.some((text) => text.includes("the end")));
    expect(attacker.texts.filter((text) => text.includes("secret"))).toEqual([]);
    await attacker.close();
  },

  async "a chat token of one conversation hears no ring of another, and changes no block"(stage) {
    const { own, other, mint, ring } = await conversations(stage);
    const limited = await mint({ conversations: [own] });
    const socket = new WebSocket(`${stage.server.wsUrl}/v1/chat/ws`, [`token.${limited.key}`]);
    const heard: string[] = [];
    socket.onmessage = ({ data }) => void heard.push(String(data));
    await until(() => heard.length > 0);
    await ring(other);
    await ring(own);
    await until(() => heard.some((frame) => frame.includes('"call.ringing"')));
    expect(heard.filter((frame) => frame.includes(other))).toEqual([]);
    socket.close();
    for (const method of ["PUT", "DELETE"]) {
      expect((await limited.call(method, "/v1/chat/blocks/ann")).status).toBe(403);
    }
    expect((await limited.call("GET", "/v1/chat/blocks")).status).toBe(403);
  },

  async "frames of LiveKit with 70,000 fields are refused before they are decoded"({ server, owner }) {
    const grant = { roomJoin: true, room: "fields" };
    const nested = Buffer.concat([Buffer.of((6 << 3) | 2, 0xe0, 0xc5, 0x08), field(1)]);
    for (const frame of [field(15), nested, `{"x":[${"0,".repeat(60_000)}0]}`]) {
      const client = await RawClient.open(server.wsUrl, await owner.livekit(crypto.randomUUID(), grant));
      await client.hears("join");
      client.sendRaw(frame as Buffer<ArrayBuffer>);
      expect(await client.isClosed()).toBe(4400);
    }
    const worker = await RawWorker.open(server.wsUrl, await owner.livekit("worker", { agent: true }));
    worker.sendRaw(field(15).subarray(0, 60_000));
    await worker.until(() => worker.closed !== null, "the close");
    expect(worker.closed?.code).toBe(4400);
    const [status] = await owner.twirp(
      "RoomService/ListRooms",
      { roomList: true },
      { names: new Array(30_000).fill("") },
    );
    expect(status).toBe(400);
  },

  async "a LiveKit token signed before its holder was removed opens nothing"({ server, owner }) {
    const room = crypto.randomUUID();
    const grant = { roomJoin: true, room };
    const validate = async (claims: object) => {
      const token = await owner.livekit("mallory", grant, claims);
      return (await fetch(`${server.url}/rtc/validate?access_token=${token}`)).status;
    };
    const seconds = Math.floor(Date.now() / 1000);
    const client = await RawClient.open(server.wsUrl, await owner.livekit("mallory", grant, { nbf: seconds - 5 }));
    await client.hears("join");
    const admin = { roomAdmin: true, room };
    expect((await owner.twirp("RoomService/RemoveParticipant", admin, { room, identity: "mallory" }))[0]).toBe(200);
    await client.isClosed();
    for (const claims of [{}, { nbf: seconds - 5 }, { iat: seconds - 3_600 }]) expect(await validate(claims)).toBe(401);
    expect(await validate({ iat: seconds + 5 })).toBe(200);
  },

  async "speakers and a sender that a participant forges in a data packet reach nobody"({ server, owner }) {
    const roomId = await owner.room();
    const enter = async (identity: string) => {
      const participant = await HostileParticipant.join(server.url, (await owner.mint(roomId, identity)).token);
      participant.openChannel("_reliable");
      return participant;
    };
    const [ann, mallory] = [await enter("ann"), await enter("mallory")];
    const user = (text: string, more = {}) => new UserPacket({ payload: Buffer.from(text), ...more });
    const packet = (value: Partial<DataPacket>) => Buffer.from(new DataPacket(value as never).toBinary());
    const speakers = [new SpeakerInfo({ sid: "forged-speaker", level: 1, active: true })];
    mallory.sendBytes(packet({ value: { case: "speaker", value: new ActiveSpeakerUpdate({ speakers }) } }));
    mallory.sendBytes(
      packet({
        participantIdentity: "forged-outer",
        value: { case: "user", value: user("one", { participantIdentity: "forged-inner" }) },
      }),
    );
    // Some decoders ignore the upper bits of such a tag, which is another field for decoders that do not.
    const sender = Buffer.from("forged-long");
    const inner = Buffer.concat([
      user("two").toBinary(),
      Buffer.of(0xaa, 0x80, 0x80, 0x80, 0x10, sender.length),
      sender,
    ]);
    mallory.sendBytes(Buffer.concat([Buffer.of((2 << 3) | 2, inner.length), inner]));
    mallory.sendBytes(packet({ value: { case: "user", value: user("the end") } }));
    const arrived = await ann.arrived("the end");
    expect(arrived.includes("one")).toBe(true);
    expect(arrived.includes("mallory")).toBe(true);
    expect(arrived.includes("forged")).toBe(false);
    for (const participant of [ann, mallory]) await participant.leave();
  },

  async "a viewer of HLS who was removed gets no more media from the addresses that it kept"({ owner, server }) {
    const { body: stream } = await owner.call("POST", "/v1/live-streams", {
      title: "show",
      hostIdentity: "ada",
      record: true,
    });
    const path = `/v1/live-streams/${stream.id}`;
    const { rtc } = (await owner.call("POST", `${path}/hosts`, { identity: "ada", role: "HOST" })).body as {
      rtc: { endpoint: string; token: string };
    };
    const host = await joinRoom(rtc.endpoint, rtc.token);
    await host.publishAudio(tone({ hz: 440 }));
    expect((await owner.call("POST", `${path}/start`)).status).toBe(200);
    const viewer = (await owner.call("POST", `${path}/viewer-tokens`, { identity: "mallory" })).body as {
      rtc: { token: string };
    };
    const get = async (address: string) => {
      const answer = await fetch(new URL(address, server.url));
      return { status: answer.status, text: await answer.text() };
    };
    const index = `${path}/hls/index.m3u8?token=${viewer.rtc.token}`;
    await until(async () => (await get(index)).status === 200);
    const playlist = /^[^#\s]\S*\.m3u8|URI="([^"]+\.m3u8)"/m.exec((await get(index)).text);
    const kept = new URL(playlist?.[1] ?? playlist?.[0] ?? "", new URL(index, server.url)).href;
    expect((await get(kept)).status).toBe(200);
    expect((await owner.call("DELETE", `${path}/viewers/mallory`)).status).toBeLessThan(300);
    for (const address of [kept, index]) expect((await get(address)).status).toBeGreaterThanOrEqual(401);
    await host.close();
  },

  async "who waits in a lobby gets in on no other way, and only a host admits"(stage) {
    const { owner, server } = stage;
    const { name, roomId, client, host, guest } = await lobbyOf(stage);
    const mallory = await client("mallory", { publish: true });
    expect(await codeOf(mallory.join())).toBe("IN_LOBBY");
    for (const type of ["lobby.admit", "lobby.deny"]) {
      expect(await codeOf(mallory.request(type, { identity: "mallory" }))).toBe("NOT_IN_ROOM");
      expect(await codeOf(guest.request(type, { identity: "mallory" }))).toBe("PERMISSION_DENIED");
    }
    expect(await codeOf(guest.request("room.update", { lobby: false }))).toBe("PERMISSION_DENIED");
    expect(await codeOf(host.request("lobby.admit", { identity: "nobody" }))).toBe("PARTICIPANT_NOT_FOUND");
    const livekit = await RawClient.open(server.wsUrl, await owner.livekit("mallory", { roomJoin: true, room: name }));
    await livekit.isClosed();
    expect(livekit.heard.map((one) => one.case)).toEqual(["leave"]);
    const { token } = await owner.mint(roomId, "mallory", PUBLISHES);
    for (const kind of ["whip", "whep"]) {
      const headers = { authorization: `Bearer ${token}`, "content-type": "application/sdp" };
      const answer = await fetch(`${server.url}/${kind}/${roomId}`, { method: "POST", headers, body: "v=0" });
      expect([kind, answer.status]).toEqual([kind, 403]);
    }
    const { body } = await owner.call("GET", `/v1/rooms/${roomId}/participants`);
    expect(JSON.stringify(body)).not.toContain("mallory");
    // The sockets of one participant do not pile up.
    const again = await client("mallory", { publish: true });
    expect(await codeOf(again.join())).toBe("IN_LOBBY");
    await until(() => mallory.closeCode === 4409);
    expect(await codeOf(host.request("lobby.deny", { identity: "mallory" }))).toBe("done");
    await until(() => again.closeCode === 4403);
    for (const one of [host, guest]) await one.leave();
  },
};
