import { describe, expect, test } from "bun:test";
import { decodeCursor, encodeCursor } from "../../../src/kernel/http/cursor.ts";
import { createMethodsOf } from "../../../src/kernel/http/envelope.ts";
import { normalOrigin, originAllowed, sameOrigin } from "../../../src/kernel/http/origins.ts";
import { createRateLimiter } from "../../../src/kernel/http/rate-limit.ts";
import { createClientIp, createSocketAddress } from "../../../src/kernel/http/request-info.ts";
import { rateLimitKey } from "../../../src/kernel/net/addresses.ts";
import { fakeClock } from "../../harness/clock.ts";

describe("[8] fixed windows", () => {
  const clock = fakeClock();
  const limiter = createRateLimiter(clock.now, 60);
  const take = (key: string) => limiter.take("LOGIN", key, 2);

  test("a budget is used up, refused, and available again when its window ends", () => {
    expect(take("a")).toEqual({ allowed: true, limit: 2, remaining: 1, resetSeconds: 60 });
    clock.advance(10_500);
    expect(take("a")).toMatchObject({ allowed: true, remaining: 0, resetSeconds: 50 });
    expect(take("a")).toMatchObject({ allowed: false, remaining: 0, resetSeconds: 50 });
    expect(take("b").allowed).toBe(true);
    clock.advance(49_499);
    expect(take("a")).toMatchObject({ allowed: false, resetSeconds: 1 });
    clock.advance(1);
    expect(take("a")).toMatchObject({ allowed: true, remaining: 1, resetSeconds: 60 });
  });

  test("a clock that is set back locks no client out for longer than a window", () => {
    for (let n = 0; n < 3; n++) take("early");
    clock.advance(-7_200_000);
    expect(take("early")).toMatchObject({ allowed: true, remaining: 1, resetSeconds: 60 });
    clock.advance(7_200_000);
  });

  test("the windows of a hundred thousand clients do not stay in memory", () => {
    for (let n = 0; n < 100_000; n++) {
      limiter.take("X", String(n), 1);
      if (n % 1000 === 0) clock.advance(60_000);
    }
    const fresh = createRateLimiter(clock.now, 60);
    expect(fresh.take("X", "1", 1).allowed).toBe(true);
  });
});

const addressAt = (server: object) =>
  createSocketAddress({ listening: { server: server as never }, clients: null, forwardedClient: null });

describe("[1] client address", () => {
  const from = (socket: string, forwarded: string | undefined, trusted: string[]) => {
    const request = new Request("http://localhost/", { headers: forwarded ? { "x-forwarded-for": forwarded } : {} });
    const server = { requestIP: () => ({ address: socket, family: "IPv4", port: 1 }) };
    return createClientIp(trusted, addressAt(server))(request);
  };

  test.each([
    ["203.0.113.9", undefined, [], "203.0.113.9"],
    ["203.0.113.9", "198.51.100.1", [], "203.0.113.9"],
    ["10.0.0.1", "198.51.100.1", ["10.0.0.0/8"], "198.51.100.1"],
    ["10.0.0.1", "6.6.6.6, 198.51.100.1, 10.0.0.2", ["10.0.0.0/8"], "198.51.100.1"],
    ["::ffff:10.0.0.1", "198.51.100.1", ["10.0.0.1"], "198.51.100.1"],
    ["10.0.0.1", "not an address", ["10.0.0.1"], "10.0.0.1"],
    ["10.0.0.1", "", ["10.0.0.1"], "10.0.0.1"],
    ["::1", "2001:db8::5", ["::1"], "2001:db8::5"],
  ])("socket %p, forwarded %p, trusted %p → %p", (socket, forwarded, trusted, expected) => {
    expect(from(socket, forwarded, trusted)).toBe(expected);
  });

  test("a connection without an address is unknown, and not trusted to name another", () => {
    const request = new Request("http://localhost/", { headers: { "x-forwarded-for": "198.51.100.1" } });
    const everywhere = ["127.0.0.1", "::1", "0.0.0.0/0", "::/0"];
    expect(createClientIp(everywhere, addressAt({ requestIP: () => null }))(request)).toBe("unknown");
  });

  test("the address is the one that the connection had when it was first read", () => {
    const request = new Request("http://localhost/");
    const addresses = ["203.0.113.9", null];
    const server = { requestIP: () => addresses.map((address) => address && { address }).shift() };
    const socketAddress = addressAt(server);
    expect(socketAddress(request)).toBe("203.0.113.9");
    addresses.shift();
    expect(createClientIp([], socketAddress)(request)).toBe("203.0.113.9");
  });
});

test("[8] a rate limit by address applies to an IPv4 address or an IPv6 /64 network", () => {
  expect(rateLimitKey("203.0.113.9")).toBe("203.0.113.9");
  expect(rateLimitKey("2001:db8:1:2::5")).toBe("2001:db8:1:2::/64");
  expect(rateLimitKey("2001:db8:1:2:ffff:ffff:ffff:ffff")).toBe("2001:db8:1:2::/64");
  expect(rateLimitKey("2001:db8:1:3::5")).toBe("2001:db8:1:3::/64");
  expect(rateLimitKey("::1")).toBe("0:0:0:0::/64");
});

describe("[4.6] browser origins", () => {
  const listed = { allowedOrigins: ["https://app.example.com"], allowLocalhostOrigins: true };
  test.each([
    [null, true],
    ["https://app.example.com", true],
    ["https://app.example.com.evil.example", false],
    ["http://app.example.com", false],
    ["https://app.example.com:8443", false],
    ["http://localhost:3000", true],
    ["https://127.0.0.1:1", true],
    ["http://[::1]:5173", true],
    ["http://localhost.evil.example", false],
    ["null", false],
    ["file://", false],
  ])("%p → %p", (origin, allowed) => expect(originAllowed(origin, listed)).toBe(allowed));

  test("an empty list allows any origin, and localhost can be switched off", () => {
    expect(originAllowed("https://any.example", { allowedOrigins: [], allowLocalhostOrigins: false })).toBe(true);
    expect(originAllowed("http://localhost:1", { ...listed, allowLocalhostOrigins: false })).toBe(false);
  });

  test("origins are normalised to the form that browsers send", () => {
    expect(normalOrigin("https://App.Example.com:443/")).toBe("https://app.example.com");
    for (const bad of ["example.com", "https://a.example/path", "https://u:p@a.example", "ftp://a.example", ""]) {
      expect(normalOrigin(bad)).toBeNull();
    }
  });

  test("same-origin is the public URL, or the request's own host when there is none", () => {
    const at = (host: string) => new Request(`http://${host}/`, { headers: { host } });
    const request = at("10.0.0.5:7000");
    expect(sameOrigin("http://10.0.0.5:7000", request, undefined)).toBe(true);
    // A name may be a stranger's that was made to lead here.
    expect(sameOrigin("http://box:7000", at("box:7000"), undefined)).toBe(false);
    expect(sameOrigin("http://localhost:7000", at("localhost:7000"), undefined)).toBe(true);
    expect(sameOrigin("http://evil.example", request, undefined)).toBe(false);
    expect(sameOrigin("https://rtc.example", request, "https://rtc.example")).toBe(true);
    expect(sameOrigin("http://10.0.0.5:7000", request, "https://rtc.example")).toBe(false);
  });
});

describe("[1] cursors", () => {
  test("a cursor decodes to its position, and only for its own list", () => {
    const cursor = encodeCursor("rooms", ["abc", 5]);
    expect(decodeCursor("rooms", cursor, ["", 0])).toEqual(["abc", 5]);
    for (const [list, text, like] of [
      ["streams", cursor, ["", 0]],
      ["rooms", cursor, [""]],
      ["rooms", `${cursor}=`, ["", 0]],
      ["rooms", "", ["", 0]],
      ["rooms", "x".repeat(257), ["", 0]],
    ] as const) {
      expect(() => decodeCursor(list, text, [...like])).toThrow(
        expect.objectContaining({ code: "SVC_INVALID_CURSOR" }),
      );
    }
  });
});

test("[7] the methods of a path come from the routes themselves", () => {
  const methodsOf = createMethodsOf(() => [
    { method: "GET", path: "/v1/rooms" },
    { method: "POST", path: "/v1/rooms/" },
    { method: "GET", path: "/v1/rooms/:id" },
    { method: "WS", path: "/v1/rtc" },
    { method: "GET", path: "/*" },
  ]);
  expect(methodsOf("/v1/rooms")).toEqual(["GET", "POST"]);
  expect(methodsOf("/v1/rooms/7")).toEqual(["GET"]);
  expect(methodsOf("/v1/rooms/7/8")).toEqual([]);
  expect(methodsOf("/v1/rtc")).toEqual([]);
});
