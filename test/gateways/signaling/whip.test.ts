import { afterEach, describe, expect, test } from "bun:test";
import { MediaError } from "../../../src/protocol/media-node.ts";
import { type RtcServer, rtcServer, settled } from "../../harness/rtc.ts";

let server: RtcServer;
const start = async (overrides = {}) => {
  server = await rtcServer(overrides);
  return server.room();
};
afterEach(() => server.close());

const post = (kind: string, roomId: string, key: string | undefined, raw = "v=0", type = "application/sdp") =>
  server.call("POST", `/${kind}/${roomId}`, { key, raw, headers: { "content-type": type } });

describe("[10] POST /whip and /whep", () => {
  test("returns 201 with answer and location, is seen in the room once media flows, and ends with DELETE", async () => {
    const roomId = await start();
    const watcher = await server.joined(roomId, "watcher");
    for (const kind of ["whip", "whep"]) {
      const { token } = await server.mint(roomId, kind);
      const { status, headers, text } = await post(kind, roomId, token);
      expect(status).toBe(201);
      expect(headers.get("content-type")).toBe("application/sdp");
      expect(text).toStartWith("v=0");
      const location = String(headers.get("location"));
      expect(location).toMatch(new RegExp(`^/${kind}/${roomId}/[0-9a-f-]{36}$`));
      server.clock.advance(10_000);
      expect(watcher.of("participant.joined").map(({ participant }) => participant)).not.toContainEqual(
        expect.objectContaining({ identity: kind }),
      );
      server.node.connect(location.split("/")[3] ?? "");
      expect(watcher.of("participant.joined").at(-1)).toMatchObject({ participant: { identity: kind } });
      const tagged = { key: token, headers: { "if-match": '"another"' } };
      expect((await server.call("DELETE", location, tagged)).status).toBe(204);
      expect(watcher.of("participant.left").at(-1)).toMatchObject({ identity: kind, reason: "left" });
      expect((await server.call("DELETE", location, { key: token })).body.code).toBe("SVC_PARTICIPANT_NOT_FOUND");
    }
    expect(server.node.peers()).toMatchObject([{ identity: "watcher" }]);
    const { token } = await server.mint(roomId, "parameters");
    for (const type of ["application/sdp; charset=utf-8", "Application/SDP"])
      expect((await post("whip", roomId, token, "v=0", type)).status).toBe(201);
  });

  test("an offer of more than 128 KB is refused with 413 before the join", async () => {
    const roomId = await start();
    for (const kind of ["whip", "whep"]) {
      const { token } = await server.mint(roomId, kind);
      const { status, body } = await post(kind, roomId, token, "v=0\r\n".padEnd(128 * 1024 + 1, "a=x\r\n"));
      expect([status, body.code]).toEqual([413, "SVC_PAYLOAD_TOO_LARGE"]);
      expect((await post(kind, roomId, token, "v=0\r\n".padEnd(128 * 1024, "a=x\r\n"))).status).toBe(201);
    }
    expect(server.node.peers()).toHaveLength(2);
  });

  test("a publisher needs publish, a viewer subscribe, both join", async () => {
    const roomId = await start();
    const cases: [string, object, number][] = [
      ["whip", { publish: true }, 201],
      ["whip", { publish: true, publishAudio: true }, 201],
      ["whip", { publish: false }, 403],
      ["whip", { publish: true, join: false }, 403],
      ["whep", { publish: false }, 201],
      ["whep", { subscribe: false }, 403],
      ["whep", { join: false }, 403],
    ];
    for (const [kind, permissions, status] of cases) {
      const { token } = await server.mint(roomId, "ada", { permissions });
      expect([kind, permissions, (await post(kind, roomId, token)).status]).toEqual([kind, permissions, status]);
    }
  });

  test("refusals use the API's error codes", async () => {
    const roomId = await start();
    const { token } = await server.mint(roomId, "ada");
    const refused = async (reply: Promise<{ status: number; body: Record<string, unknown> }>) => {
      const { status, body } = await reply;
      return [status, body.code];
    };
    expect(await refused(post("whip", roomId, undefined))).toEqual([401, "SVC_AUTH_ERROR"]);
    expect(await refused(post("whip", roomId, server.key))).toEqual([401, "SVC_AUTH_ERROR"]);
    expect(await refused(post("whip", roomId, token, "{}", "application/json"))).toEqual([
      415,
      "SVC_UNSUPPORTED_MEDIA_TYPE",
    ]);
    expect((await post("whip", roomId, undefined)).headers.get("www-authenticate")).toBe("Bearer");
    expect(await refused(post("whip", roomId, token, ""))).toEqual([400, "SVC_VALIDATION_FAILED"]);
    expect(await refused(post("whip", roomId, token, "nonsense"))).toEqual([400, "SVC_VALIDATION_FAILED"]);
    expect(await refused(post("whip", await server.room(), token))).toEqual([404, "SVC_ROOM_NOT_FOUND"]);
    // An offer is welcome nowhere else.
    const elsewhere = server.call("POST", "/v1/rooms", {
      key: server.key,
      raw: "v=0",
      headers: { "content-type": "application/sdp" },
    });
    expect(await refused(elsewhere)).toEqual([415, "SVC_UNSUPPORTED_MEDIA_TYPE"]);
    await settled();
    expect(server.node.peers()).toEqual([]);
    server.node.reachable = false;
    expect(await refused(post("whip", roomId, token))).toEqual([503, "SVC_NO_RTC_CAPACITY"]);
    server.node.reachable = true;
    await server.call("DELETE", `/v1/rooms/${roomId}`, { key: server.key });
    expect(await refused(post("whip", roomId, token))).toEqual([409, "SVC_ROOM_CLOSED"]);
  });

  test("a full room is refused with 503, and attempts count like sockets", async () => {
    const roomId = await start({ SIGNALING_MAX_PARTICIPANTS_PER_ROOM: 1, SIGNALING_MAX_CONNECTIONS_PER_WINDOW: 2 });
    const { token } = await server.mint(roomId, "a");
    const { token: other } = await server.mint(roomId, "b");
    expect((await post("whip", roomId, token)).status).toBe(201);
    expect((await post("whip", roomId, other)).body.code).toBe("SVC_NO_RTC_CAPACITY");
    const { status, body, headers } = await post("whip", roomId, other);
    expect([status, body.code, headers.get("retry-after")]).toEqual([429, "SVC_RATE_LIMITED", "60"]);
  });

  test("a socket with the same identity replaces it, and failed media, removal and revocation end it", async () => {
    const roomId = await start();
    const watcher = await server.joined(roomId, "watcher");
    const begin = async () => {
      const { token, tokenId } = await server.mint(roomId, "ada");
      const { headers } = await post("whip", roomId, token);
      const id = String(headers.get("location")).split("/")[3] ?? "";
      server.node.connect(id);
      return { id, tokenId };
    };
    const last = () => watcher.of("participant.left").at(-1)?.reason;
    await begin();
    await server.joined(roomId, "ada");
    expect(last()).toBe("replaced");
    const { id } = await begin();
    const of = { roomId, participantId: id, identity: "ada" };
    server.node.emit({ ...of, type: "participantFailed", reason: "consent_timeout" });
    expect(last()).toBe("failed");
    await begin();
    await server.call("DELETE", `/v1/rooms/${roomId}/participants/ada`, { key: server.key });
    expect(last()).toBe("removed");
    const { tokenId } = await begin();
    await server.call("DELETE", `/v1/rooms/${roomId}/rtc-tokens/${tokenId}`, { key: server.key });
    expect(last()).toBe("revoked");
  });

  test("only its own token ends it, even when expired", async () => {
    const roomId = await start();
    const { token } = await server.mint(roomId, "ada", { ttlSeconds: 30 });
    const { token: other } = await server.mint(roomId, "eve");
    const socket = await server.joined(roomId, "on-a-socket");
    const location = String((await post("whip", roomId, token)).headers.get("location"));
    expect((await server.call("DELETE", location, { key: other })).status).toBe(404);
    expect((await server.call("DELETE", location)).status).toBe(401);
    const foreign = `/whip/${roomId}/${socket.ack.sessionId}`;
    expect((await server.call("DELETE", foreign, { key: other })).status).toBe(404);
    server.clock.advance(60_000);
    expect((await post("whip", roomId, token)).body.code).toBe("SVC_TOKEN_EXPIRED");
    expect((await server.call("DELETE", location, { key: token })).status).toBe(204);
    expect(socket.closed).toBeNull();
  });

  describe("PATCH on the location", () => {
    const OFFER = "v=0\r\nm=video 9 X 96\r\na=ice-ufrag:first\r\na=ice-pwd:1234567890123456789012\r\n";
    const RESTART = "a=ice-ufrag:second\r\na=ice-pwd:abcdefghijabcdefghijab\r\n";
    const CANDIDATE = "m=video 9 X 96\r\na=mid:0\r\na=candidate:1 1 udp 1 192.0.2.1 9 typ host\r\n";

    async function encoder(overrides = {}) {
      const roomId = await start(overrides);
      const { token } = await server.mint(roomId, "obs");
      const { headers } = await post("whip", roomId, token, OFFER);
      const location = String(headers.get("location"));
      const patch = (raw: string, ifMatch?: string, type = "application/trickle-ice-sdpfrag", key = token) =>
        server.call("PATCH", location, {
          key,
          raw,
          headers: { "content-type": type, ...(ifMatch === undefined ? {} : { "if-match": ifMatch }) },
        });
      return { roomId, patch, etag: String(headers.get("etag")), acceptPatch: headers.get("accept-patch") };
    }

    test("takes candidates for the ICE session that If-Match names", async () => {
      const { patch, etag, acceptPatch } = await encoder();
      expect(acceptPatch).toBe("application/trickle-ice-sdpfrag");
      expect(etag).toMatch(/^"[^"]+"$/);
      const added = await patch(CANDIDATE, etag);
      expect([added.status, added.text, added.headers.get("etag")]).toEqual([204, "", null]);
      expect((await patch("a=end-of-candidates\r\n", etag)).status).toBe(204);
      expect((await patch(`a=ice-ufrag:first\r\na=ice-pwd:1234567890123456789012\r\n${CANDIDATE}`, etag)).status).toBe(
        204,
      );
      expect((await patch(CANDIDATE)).status).toBe(428);
      expect((await patch(CANDIDATE, '"another"')).status).toBe(412);
      expect((await patch(CANDIDATE, `"another", ${etag}`)).status).toBe(204);
      expect((await patch(CANDIDATE, `W/${etag}`)).status).toBe(412);
    });

    test("an If-Match of fifteen thousand spaces takes no longer than any other", async () => {
      const { patch } = await encoder();
      const spaces = `"a"${" ".repeat(15_000)}"b"`;
      const startedMs = performance.now();
      for (let n = 0; n < 5; n++) expect((await patch(CANDIDATE, spaces)).status).toBe(412);
      expect(performance.now() - startedMs).toBeLessThan(250);
    });

    test("new credentials restart ICE and change the ETag", async () => {
      const { patch, etag } = await encoder();
      for (const any of ["*", '"*"']) {
        const { status, headers, text } = await patch(RESTART.replace("second", `second${any.length}`), any);
        expect([status, headers.get("content-type")]).toEqual([200, "application/trickle-ice-sdpfrag"]);
        expect(headers.get("etag")).not.toBe(etag);
        expect(text).not.toContain("v=0");
      }
      expect((await patch(CANDIDATE, etag)).status).toBe(412);
    });

    test("a restart that fails, or is one too many, leaves the session as it is", async () => {
      const { patch, etag } = await encoder({ SIGNALING_MAX_CONNECTIONS_PER_WINDOW: 3 });
      const { negotiate } = server.node;
      server.node.negotiate = () => Promise.reject(new MediaError("RTC_SERVER_UNREACHABLE", "no answer"));
      expect((await patch(RESTART, "*")).status).toBe(503);
      server.node.negotiate = negotiate;
      expect((await patch(CANDIDATE, etag)).status).toBe(204);
      const { status, headers } = await patch(RESTART, "*");
      expect(status).toBe(200);
      const { status: refused, headers: later } = await patch(RESTART.replace("second", "third"), "*");
      expect([refused, later.get("retry-after")]).toEqual([429, "60"]);
      expect((await patch(CANDIDATE, String(headers.get("etag")))).status).toBe(204);
      expect(server.node.peers()).toMatchObject([{ identity: "obs" }]);
    });

    test("refuses a body that is no SDP fragment, another content type, and other tokens", async () => {
      const { roomId, patch, etag } = await encoder();
      expect((await patch("nonsense", etag)).status).toBe(400);
      expect((await patch("a=ice-ufrag:only\r\n", etag)).status).toBe(400);
      expect((await patch(CANDIDATE, etag, "application/sdp")).status).toBe(415);
      const { token: other } = await server.mint(roomId, "eve");
      expect((await patch(CANDIDATE, etag, undefined, other)).status).toBe(404);
    });
  });

  test("OPTIONS names the type of an offer, a preflight too, and HEAD shows players what the address is", async () => {
    const roomId = await start();
    const preflight = { origin: "https://player.example", "access-control-request-method": "POST" };
    for (const kind of ["whip", "whep"]) {
      for (const headers of [{}, preflight]) {
        const answer = await server.call("OPTIONS", `/${kind}/${roomId}`, { headers });
        expect([answer.status, answer.headers.get("accept-post")]).toEqual([200, "application/sdp"]);
        expect(answer.headers.get("link")).toBeNull();
      }
      const { status, headers, text } = await server.call("HEAD", `/${kind}/${roomId}`);
      expect([status, headers.get("content-type"), text]).toEqual([200, "application/sdp", ""]);
    }
  });

  describe("answers of the media node", () => {
    const media = (kind: string, lines: string, port = 9) => `m=${kind} ${port} UDP/TLS/RTP/SAVPF 96\r\n${lines}`;
    const OFFER = `v=0\r\n${media("audio", "a=sendonly\r\n")}${media("video", "a=sendonly\r\n")}`;
    const answering = (...sections: string[]) => {
      server.node.negotiate = async () => ({ sdp: `v=0\r\n${sections.join("")}`, tracks: [] });
    };

    test("an offer is refused as a whole when a section of it would not be received", async () => {
      const roomId = await start();
      const { token } = await server.mint(roomId, "obs");
      const received = media("audio", "a=recvonly\r\n");
      for (const video of [media("video", "a=inactive\r\n", 0), media("video", "a=sendonly\r\n")]) {
        answering(received, video);
        const { status, body } = await post("whip", roomId, token, OFFER);
        expect([status, body.code]).toEqual([400, "SVC_VALIDATION_FAILED"]);
        expect(body.message).toContain("video section 1");
        expect(server.node.peers()).toEqual([]);
      }
      // The client does not want what it disables, but a bundled section has no port of its own.
      const [disabled, bundled] = [media("video", "", 0), media("video", "a=bundle-only\r\na=sendonly\r\n", 0)];
      answering(received, media("video", "a=inactive\r\n", 0));
      expect((await post("whip", roomId, token, `v=0\r\n${media("audio", "")}${disabled}`)).status).toBe(201);
      expect((await post("whip", roomId, token, `v=0\r\n${media("audio", "")}${bundled}`)).status).toBe(400);
      // A player shows what it can decode.
      const { token: player } = await server.mint(roomId, "player");
      answering(media("audio", "a=sendonly\r\n"), media("video", "a=inactive\r\n", 0));
      expect((await post("whep", roomId, player, OFFER.replaceAll("sendonly", "recvonly"))).status).toBe(201);
    });

    test("every received or sent section has rtcp-mux-only", async () => {
      const roomId = await start();
      for (const [kind, direction] of [
        ["whip", "recvonly"],
        ["whep", "sendonly"],
      ] as const) {
        const { token } = await server.mint(roomId, kind);
        const section = (only: string) => media("audio", `a=${direction}\r\na=rtcp-mux\r\n${only}a=rtcp-rsize\r\n`);
        answering(section(""), section(""));
        const { text } = await post(kind, roomId, token, OFFER);
        expect(text).toBe(`v=0\r\n${section("a=rtcp-mux-only\r\n").repeat(2)}`);
      }
    });
  });

  test("GET of an endpoint and of a session succeeds without content, and other methods are refused", async () => {
    const roomId = await start();
    for (const kind of ["whip", "whep"]) {
      const { token } = await server.mint(roomId, kind);
      const location = String((await post(kind, roomId, token)).headers.get("location"));
      for (const path of [`/${kind}/${roomId}`, location]) {
        const { status, text } = await server.call("GET", path, { headers: { accept: "text/html" } });
        expect([status, text]).toEqual([path === location ? 204 : 200, ""]);
        const refused = await server.call("PUT", path, { key: token });
        expect(refused.status).toBe(405);
        for (const method of path === location ? ["GET", "PATCH", "DELETE"] : ["GET", "OPTIONS", "POST"])
          expect(refused.headers.get("allow")?.split(", ")).toContain(method);
      }
    }
  });

  test("an offer to send and receive, or without a direction, is answered for one direction", async () => {
    const roomId = await start();
    const section = (lines: string) => `m=audio 9 UDP/TLS/RTP/SAVPF 111\r\na=mid:0\r\n${lines}`;
    const offered: string[] = [];
    const { negotiate } = server.node;
    server.node.negotiate = (request) => {
      offered.push(request.sdp);
      return negotiate.call(server.node, request);
    };
    for (const [kind, direction] of [
      ["whip", "sendonly"],
      ["whep", "recvonly"],
    ] as const) {
      const { token } = await server.mint(roomId, kind);
      for (const given of ["", "a=sendrecv\r\n", `a=${direction}\r\n`])
        expect((await post(kind, roomId, token, `v=0\r\n${section(given)}`)).status).toBe(201);
      expect(offered.splice(0)).toEqual(Array(3).fill(`v=0\r\n${section(`a=${direction}\r\n`)}`));
    }
  });

  test("TURN servers are in the Link header", async () => {
    const roomId = await start({ TURN_URLS: ["turn:a.example", "turns:b.example"], TURN_SECRET: "north" });
    const { token } = await server.mint(roomId, "ada");
    const { headers } = await post("whip", roomId, token);
    expect(headers.get("link")).toMatch(
      /^<turn:a\.example>; rel="ice-server"; username="\d+:ada"; credential="[^"]+"; credential-type="password", <turns:b\.example>;/,
    );
  });

  test("browsers on other origins may use it and read the location", async () => {
    const roomId = await start();
    const { token } = await server.mint(roomId, "ada");
    const origin = "https://player.example";
    const preflight = await server.call("OPTIONS", `/whep/${roomId}`, {
      headers: {
        origin,
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization,content-type",
      },
    });
    expect(preflight.status).toBe(200);
    expect(preflight.headers.get("access-control-allow-origin")).toBe(origin);
    expect(preflight.headers.get("access-control-allow-methods")).toContain("POST");
    expect(preflight.headers.get("access-control-allow-headers")).toBe("authorization,content-type");
    const { headers } = await server.call("POST", `/whep/${roomId}`, {
      key: token,
      raw: "v=0",
      headers: { origin, "content-type": "application/sdp" },
    });
    expect(headers.get("access-control-allow-origin")).toBe(origin);
    expect(headers.get("access-control-expose-headers")).toMatch(/link, location.*etag, accept-patch/);
    const session = await server.call("OPTIONS", String(headers.get("location")), {
      headers: { origin, "access-control-request-method": "PATCH", "access-control-request-headers": "if-match" },
    });
    expect(session.status).toBe(204);
    expect(session.headers.get("access-control-allow-methods")).toMatch(/PATCH.*DELETE/);
    expect(session.headers.get("access-control-allow-headers")).toBe("if-match");
  });
});
