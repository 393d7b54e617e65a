/** The client API of LiveKit, check by check, in each of its connection modes and in both browsers. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Firefox, launchFirefox } from "../../e2e/sdk/firefox.ts";
import { issue } from "../../ops/certificate.ts";
import { freePort } from "../../ops/proxies.ts";
import { patiently } from "./harness/patience.ts";
import { type Anything, emitted, enter, exchange, prepare } from "./harness/rooms-in-page.ts";
import { type BrowserName, type LivekitPackage, openPage, openStage, type Stage, WAIT_MS } from "./harness/stage.ts";

let stage: Stage;
let firefox: Firefox;
const folder = mkdtempSync(join(tmpdir(), "stoa-every-client-"));
beforeAll(async () => {
  const { cert, key, ca } = await issue(folder, ["localhost"]);
  const port = await freePort();
  // Clients get the address of a TURN server over TLS.
  const tls = {
    TLS_CERT: cert,
    TLS_KEY: key,
    EDGE_PORT: port,
    PUBLIC_URL: `https://localhost:${port}`,
    // Firefox allocates for each section and address before it bundles them, and version 2.15 has two connections.
    TURN_MAX_ALLOCATIONS_PER_SESSION: 32,
  };
  [stage, firefox] = await Promise.all([openStage(tls, "--ignore-certificate-errors"), launchFirefox({ trusts: ca })]);
}, 180_000);
afterAll(async () => {
  await Promise.all([firefox?.close(), stage?.close()]);
  rmSync(folder, { recursive: true, force: true });
});

const CLIENTS: { client: string; script: LivekitPackage; room: object }[] = [
  { client: "2.23 on one connection", script: "livekit-client", room: { singlePeerConnection: true } },
  { client: "2.15 on two connections", script: "livekit-client-two-connections", room: {} },
];
const EACH = CLIENTS.flatMap((one) => (["Chromium", "Firefox"] as const).map((browser) => ({ ...one, browser })));

async function preparedPage(browser: BrowserName, script: LivekitPackage) {
  const opened = await openPage(stage, firefox, browser, script);
  await prepare(opened.page);
  return opened;
}

test.each(EACH)(
  "livekit-client $client in $browser: joining, tracks, profile, data, streams, RPC and codecs",
  async ({ client, script, room: options, browser }) => {
    const room = `checks ${client} ${browser}`;
    const { page, close } = await preparedPage(browser, script);

    // Joining.
    const prepared = await page.evaluate(async (url) => {
      const room = new window.LivekitClient.Room();
      const warned: unknown[] = [];
      window.LivekitClient.setLogExtension((_: unknown, text: string) => warned.push(text), room.log);
      await room.prepareConnection(url, "");
      const response = await fetch(url.replace("ws", "http"), { method: "HEAD" });
      return [response.status, warned.filter((text) => text === "could not prepare connection")];
    }, stage.wsUrl);
    expect(prepared).toEqual([200, []]);
    const profile = { name: "Zoë Ünal", metadata: "born 1980", attributes: { team: "red" } };
    await enter(page, "ben", stage.wsUrl, await stage.token(room, "ben", profile), { room: options });
    const eveGrant = { canUpdateOwnMetadata: false };
    await enter(page, "eve", stage.wsUrl, await stage.token(room, "eve", { grant: eveGrant }), { room: options });
    // Until a participant's media is connected, the server does not tell others of it.
    await page.waitForFunction(
      () => window.rooms.ben.remoteParticipants.has("eve") && window.rooms.eve.remoteParticipants.has("ben"),
      undefined,
      { timeout: WAIT_MS },
    );
    await enter(page, "ann", stage.wsUrl, await stage.token(room, "ann"), { room: options });
    const joined = await page.evaluate(async () => {
      const { ann } = window.rooms;
      const { name, metadata, attributes } = ann.remoteParticipants.get("ben");
      const { edition, version, protocol } = ann.serverInfo;
      return {
        sid: (await ann.getSid()) as string,
        room: ann.name,
        participants: [ann.numParticipants, [...ann.remoteParticipants.keys()].sort().join()],
        ben: { name, metadata, attributes },
        server: [edition, typeof version, protocol > 9].join(),
        modes: ann.engine.pcManager.subscriber ? "two" : "one",
      };
    }, undefined);
    expect(joined).toEqual({
      sid: (await stage.rooms.listRooms([room]))[0].sid,
      room,
      participants: [3, "ben,eve"],
      ben: profile,
      server: "0,string,true",
      modes: client === "2.23 on one connection" ? "one" : "two",
    });
    await emitted(page, "ben", "participantConnected ann");
    await emitted(page, "ben", "participantActive ann");

    // Tracks.
    const camera = await patiently(() =>
      page.evaluate(async () => {
        const { localParticipant: me } = window.rooms.ann;
        const known = (source: string) => me.getTrackPublication(source);
        if (!known("microphone")) await me.publishTrack(await window.tone(), { source: "microphone" });
        if (!known("camera")) await me.publishTrack(window.painted(640, 360), { source: "camera" });
        const { trackInfo } = known("camera");
        return { ...trackInfo, layers: trackInfo.layers.length };
      }, undefined),
    );
    expect(camera).toMatchObject({ width: 640, height: 360, mimeType: "video/VP8", simulcast: true, layers: 2 });
    for (const source of ["microphone", "camera"]) {
      await emitted(page, "ann", `localTrackPublished ${source} ann`);
      await emitted(page, "ann", `localTrackSubscribed ${source} ann`);
      await emitted(page, "ben", `trackPublished ${source} ann`);
      await emitted(page, "ben", `trackSubscribed ${source} ${source} ann`);
    }
    await page.evaluate(() => window.flows("ben", "ann"), undefined);
    for (const one of ["ann", "ben"]) await emitted(page, one, "activeSpeakersChanged ann");
    for (const one of ["ann", "ben"]) {
      await page.waitForFunction(
        (one) => window.lines[one]?.some((line) => /^connectionQualityChanged (good|excellent) ann$/.test(line)),
        one,
        { timeout: WAIT_MS },
      );
    }
    await page.evaluate(() => window.publication("ben", "ann", "camera").setSubscribed(false), undefined);
    await emitted(page, "ben", "trackUnsubscribed camera camera ann");

    // What participants say about themselves.
    const refused = await patiently(() =>
      page.evaluate(async () => {
        const { ann, eve } = window.rooms;
        const outcome = (work: Promise<unknown>) =>
          work.then(
            () => "done",
            (error: Error) => (/timed out/.test(error.message) ? Promise.reject(error) : error.message),
          );
        await ann.localParticipant.setName("Ann Ö");
        await ann.localParticipant.setMetadata("new");
        await ann.localParticipant.setAttributes({ hand: "up" });
        return [
          await outcome(ann.localParticipant.setMetadata("x".repeat(2_000))),
          await outcome(eve.localParticipant.setName("Eve")),
          await outcome(eve.localParticipant.setMetadata("x")),
          await outcome(eve.localParticipant.setAttributes({ a: "b" })),
        ];
      }, undefined),
    );
    expect(refused).toEqual([
      expect.stringContaining("1024"),
      ...Array(3).fill(expect.stringMatching(/does not permit/)),
    ]);
    for (const one of ["ann", "ben"]) {
      await emitted(page, one, "participantNameChanged Ann Ö ann");
      await emitted(page, one, "participantMetadataChanged");
      await emitted(page, one, 'participantAttributesChanged {"hand":"up"} ann');
    }

    // Data, streams, chat and DTMF.
    await page.evaluate(async () => {
      const { ben, eve, ann } = window.rooms;
      for (const [name, room] of [
        ["ben", ben],
        ["eve", eve],
      ]) {
        const lines = window.lines[name] as string[];
        room.registerTextStreamHandler("text", async (reader: Anything, { identity }: Anything) =>
          lines.push(`text ${identity} ${(await reader.readAll()).length} ${JSON.stringify(reader.info.attributes)}`),
        );
        room.registerByteStreamHandler("bytes", async (reader: Anything, { identity }: Anything) => {
          const parts: Uint8Array[] = await reader.readAll();
          lines.push(`bytes ${identity} ${parts.reduce((sum, { length }) => sum + length, 0)} ${reader.info.name}`);
        });
      }
      const { localParticipant: me } = ann;
      const to = { destinationIdentities: ["ben"] };
      await me.publishData(Uint8Array.of(255, 0, 1), { reliable: true, topic: "small", ...to });
      await me.publishData(new Uint8Array(14_000), { reliable: true, topic: "14k" });
      await me.publishData(new Uint8Array(60_000), { reliable: true, topic: "60k" });
      await me.sendText("ä".repeat(40_000), { topic: "text", attributes: { a: "1" } });
      const writer = await me.streamText({ topic: "text", ...to });
      for (const word of ["one", "two", "three"]) await writer.write(word);
      await writer.close();
      await me.sendFile(new File([new Uint8Array(100_000)], "f.bin"), { topic: "bytes" });
      const bytes = await me.streamBytes({ name: "streamed", topic: "bytes" });
      await bytes.write(new Uint8Array(20_000));
      await bytes.close();
      const message = await me.sendChatMessage("hello");
      await me.editChatMessage("hello!", message);
      await me.publishDtmf(5, "5");
    }, undefined);
    for (const one of ["ben", "eve"]) {
      await emitted(page, one, "dataReceived 14000 bytes ann");
      await emitted(page, one, "dataReceived 60000 bytes ann");
      await emitted(page, one, 'text ann 40000 {"a":"1"}');
      await emitted(page, one, "bytes ann 100000 f.bin");
      await emitted(page, one, "bytes ann 20000 streamed");
      await emitted(page, one, "chatMessage");
      await emitted(page, one, "sipDTMFReceived");
    }
    await emitted(page, "ben", "dataReceived 255,0,1 ann");
    await emitted(page, "ben", "text ann 11 {}");
    const eves = await page.evaluate(() => window.lines.eve ?? [], undefined);
    expect(eves.filter((line) => /^(dataReceived 255|text ann 11 )/.test(line))).toEqual([]);
    // A lossy packet may be lost, but not all of them.
    await page.evaluate(async () => {
      const { ann, ben } = window.rooms;
      let arrived = false;
      ben.on("dataReceived", (_: unknown, __: unknown, ___: unknown, topic: string) => {
        arrived ||= topic === "lossy";
      });
      while (!arrived) {
        await ann.localParticipant.publishData(new Uint8Array(9), { reliable: false, topic: "lossy" });
        await new Promise((resolve) => setTimeout(resolve, 50));
      }
    }, undefined);

    // RPC.
    const asked = await page.evaluate(async () => {
      const { ann, ben } = window.rooms;
      const { RpcError } = window.LivekitClient;
      const methods = {
        add: async ({ payload }: Anything) => `${Number(payload) + 1}`,
        size: async ({ payload }: Anything) => `${payload.length}`,
        refuse: async () => {
          throw new RpcError(101, "no seat", "A4");
        },
        fail: async () => {
          throw new Error("something else");
        },
        never: () => new Promise(() => {}),
      };
      for (const [name, method] of Object.entries(methods)) {
        if (ben.registerRpcMethod) ben.registerRpcMethod(name, method);
        else ben.localParticipant.registerRpcMethod(name, method);
      }
      // The SDK gives up after seven or fifteen seconds, which a busy machine may take: it is asked again then, and only then.
      const isLate = (code: number, method: string) => code === 1501 || (code === 1502 && method !== "never");
      const ask = (method: string, payload = "", to = "ben", responseTimeout?: number): Promise<unknown> =>
        ann.localParticipant
          .performRpc({ destinationIdentity: to, method, payload, responseTimeout })
          .catch(({ code, data }: Anything) =>
            to === "ben" && isLate(code, method)
              ? ask(method, payload, to, responseTimeout)
              : [code, data].filter(Boolean).join(),
          );
      return Promise.all([
        ask("add", "41"),
        ask("size", "x".repeat(14_000)),
        ask("refuse"),
        ask("fail"),
        ask("none"),
        ask("never", "", "ben", 1_000),
        ask("add", "41", "nobody"),
      ]);
    }, undefined);
    expect(asked.slice(0, 6)).toEqual(["42", "14000", "101,A4", "1500", "1400", "1502"]);
    expect(asked[6]).toMatch(/^(1401|1501)$/);

    // Codecs: what the SDK and its browser can encode is sent and shown; for anything else VP8.
    const codecs = await patiently(() =>
      page.evaluate(async () => {
        const { ann, ben } = window.rooms;
        const { supportsVP9, supportsAV1 } = window.LivekitClient;
        const encoders = (RTCRtpSender.getCapabilities("video")?.codecs ?? []).map(({ mimeType }) => mimeType);
        const able: Record<string, boolean> = {
          vp9: supportsVP9(),
          av1: supportsAV1(),
          h264: encoders.includes("video/H264"),
          h265: encoders.includes("video/H265"),
        };
        const outcomes: Record<string, unknown> = {};
        const each = async (name: string, videoCodec: string, more = {}) => {
          const wanted = able[videoCodec] ? videoCodec : "vp8";
          const options = { name, videoCodec, simulcast: false, source: "unknown", backupCodec: false, ...more };
          const { trackSid, track } = await ann.localParticipant.publishTrack(window.painted(320, 180), options);
          const find = () => ben.remoteParticipants.get("ann").trackPublications.get(trackSid);
          const shown = async () => {
            const stats = (await find()?.track?.receiver?.getStats()) as Map<string, Anything> | undefined;
            const inbound = [...(stats?.values() ?? [])].find(({ type }) => type === "inbound-rtp");
            if ((inbound?.framesDecoded ?? 0) < 3) return null;
            // Firefox does not always report the codec.
            const { mimeType } = stats?.get(inbound.codecId) ?? find().trackInfo;
            return mimeType.toLowerCase() as string;
          };
          let codec = null;
          for (let tries = 0; tries < 600 && codec === null; tries++) {
            await new Promise((resolve) => setTimeout(resolve, 100));
            codec = await shown();
          }
          const told = find()?.trackInfo.mimeType.toLowerCase();
          const is = codec === `video/${wanted}` && told === codec;
          outcomes[name] = is ? "as wanted" : { wanted, codec, told };
          await ann.localParticipant.unpublishTrack(track);
        };
        for (const codec of ["vp9", "av1", "h264", "h265"]) await each(codec, codec);
        await each("svc", "vp9", { scalabilityMode: "L3T3_KEY" });
        return outcomes;
      }, undefined),
    );
    expect(codecs).toEqual(Object.fromEntries(["vp9", "av1", "h264", "h265", "svc"].map((one) => [one, "as wanted"])));
    await close();
  },
  10 * WAIT_MS,
);

const SCENARIOS = {
  /** The client resumes its session. */
  resumes: ["signal-reconnect", "disconnect-signal-on-resume", "disconnect-signal-on-resume-no-messages", "migration"],
  /** The client rejoins under another sid. */
  rejoins: ["resume-reconnect", "force-tcp", "force-tls", "full-reconnect", "leave-full-reconnect", "node-failure"],
};

/** What a client has asked for holds for one session. */
const TRANSPORTS: Record<string, string> = { "force-tcp": "tcp", "force-tls": "tls" };

test.each(EACH)(
  "livekit-client $client in $browser: simulated failures end with a resumed session, a new one, or none",
  async ({ client, script, room: options, browser }) => {
    const { page, close } = await preparedPage(browser, script);
    const join = async (room: string, identity: string, publish: boolean) =>
      enter(page, identity, stage.wsUrl, await stage.token(`${room} ${client} ${browser}`, identity), {
        room: options,
        publish,
      });
    const sidOf = (identity: string) =>
      page.evaluate((identity) => window.rooms[identity].localParticipant.sid as string, identity);
    const simulate = (identity: string, scenario: string, value?: number) =>
      page.evaluate(
        ({ identity, scenario, value }) => {
          window.lines[identity]?.splice(0);
          return window.rooms[identity].simulateScenario(scenario, value) as Promise<void>;
        },
        { identity, scenario, value },
      );

    /** How each connection has to reach the server: over any protocol, TCP, or a TURN server over TLS. */
    const transportsOf = (identity: string) =>
      page.evaluate(async (identity) => {
        const { publisher, subscriber } = window.rooms[identity].engine.pcManager;
        const connections = [publisher, subscriber].flatMap((one) => (one ? [one._pc as RTCPeerConnection] : []));
        const found = connections.map(async (connection) => {
          // Where it has a choice, a busy machine may take TCP.
          const isRelayed = connection.getConfiguration().iceTransportPolicy === "relay";
          if (!isRelayed && / udp /i.test(connection.remoteDescription?.sdp ?? "")) return "any";
          const stats = new Map<string, Anything>(await connection.getStats());
          const all = [...stats.values()];
          // Firefox has no statistics of the transport.
          const inUse = all.find(({ type }) => type === "transport")?.selectedCandidatePairId;
          const pair = stats.get(inUse) ?? all.find(({ type, selected }) => type === "candidate-pair" && selected);
          const { candidateType, relayProtocol } = stats.get(pair?.localCandidateId) ?? {};
          const { protocol } = stats.get(pair?.remoteCandidateId) ?? {};
          return (candidateType === "relay" ? relayProtocol : protocol) as string | undefined;
        });
        return [...new Set(await Promise.all(found))];
      }, identity);

    const complaints = () => page.evaluate(() => window.complaints, undefined);
    const failures = Object.entries(SCENARIOS).map(async ([outcome, scenarios]) => {
      const other = `other who ${outcome}`;
      const meet = async () => {
        await join(outcome, other, true);
        await join(outcome, outcome, true);
        await exchange(page, outcome, other);
      };
      const part = () =>
        page.evaluate(
          (both) => Promise.all(both.map((identity) => window.rooms[identity].disconnect() as Promise<void>)),
          [outcome, other],
        );
      await meet();
      for (const scenario of scenarios) {
        let hasMet = true;
        await patiently(async () => {
          if (!hasMet) await part().then(meet);
          hasMet = false;
          const before = await sidOf(outcome);
          await simulate(outcome, scenario);
          // On a busy machine the client may need more than one attempt.
          await emitted(page, outcome, "reconnected", 2 * WAIT_MS).catch((cause) => {
            throw new Error(`not connected after ${scenario}`, { cause });
          });
          await exchange(page, outcome, other);
          const isSame = (await sidOf(outcome)) === before;
          expect([scenario, isSame ? "resumes" : "rejoins"]).toEqual([scenario, outcome]);
          expect([scenario, await transportsOf(outcome)]).toEqual([scenario, [TRANSPORTS[scenario] ?? "any"]]);
        }, complaints);
      }
    });
    const speech = async () => {
      for (const identity of ["speaker", "listener"]) await join("speech", identity, false);
      await simulate("speaker", "speaker");
      await emitted(page, "speaker", "activeSpeakersChanged speaker");
      // Nobody speaks any more.
      await emitted(page, "speaker", "activeSpeakersChanged ");
    };
    const end = async () => {
      await join("end", "end", false);
      await simulate("end", "server-leave");
      await emitted(page, "end", "disconnected 3");
    };
    const bandwidth = async () => {
      // Version 2.15 has the state of a stream, but does not emit the event.
      const becomes = (state: string) =>
        page.waitForFunction(
          (state) => window.publication("limited", "sender", "camera").track.streamState === state,
          state,
          { timeout: WAIT_MS },
        );
      await join("bandwidth", "sender", false);
      await join("bandwidth", "limited", false);
      await page.evaluate(async () => {
        const { localParticipant: me } = window.rooms.sender;
        // So little that the server does not pause it before on a busy machine, whose packets are late.
        const videoEncoding = { maxBitrate: 60_000, maxFramerate: 10 };
        await me.publishTrack(window.noise(160, 90), { source: "camera", simulcast: false, videoEncoding });
        await me.publishTrack(await window.tone(), { source: "microphone" });
      }, undefined);
      await page.evaluate(() => window.flows("limited", "sender"), undefined);
      await simulate("limited", "subscriber-bandwidth", 10_000);
      await becomes("paused");
      const frames = await page.evaluate(async () => {
        const { counted } = window;
        const seen: number[] = [];
        // Frames that were sent before may still arrive in the first part of this time.
        for (let time = 0; time < 2; time++) {
          const heard = await counted("limited", "sender", "microphone", "packetsReceived");
          while ((await counted("limited", "sender", "microphone", "packetsReceived")) < heard + 25)
            await new Promise((resolve) => setTimeout(resolve, 100));
          seen.push(await counted("limited", "sender", "camera", "framesReceived"));
        }
        return seen;
      }, undefined);
      expect(frames[1]).toBe(frames[0] as number);
      await simulate("limited", "subscriber-bandwidth", 0);
      await becomes("active");
      await page.evaluate(() => window.flows("limited", "sender"), undefined);
    };
    await Promise.all([...failures, speech(), bandwidth(), end()]);
    await close();
  },
  10 * WAIT_MS,
);
