import { expect, test } from "bun:test";
import { createUrlSigner } from "../../../src/features/storage/signed-url.ts";
import { createKeyring } from "../../../src/kernel/crypto/secrets.ts";
import { ApiError } from "../../../src/protocol/errors.ts";
import { fakeClock } from "../../harness/clock.ts";

const clock = fakeClock();
const signer = createUrlSigner(createKeyring("a".repeat(32)), clock.now);
const file = { id: "att_0123456789abcdefghijABCD", size: 1000, mimeType: "image/png" };
const put = new URL(signer.sign("https://rtc.example.com", file, "PUT", 900));

const refused = (method: "PUT" | "GET", id: string, query: URLSearchParams, with_ = signer) => {
  try {
    with_.check(method, id, query);
    return "accepted";
  } catch (error) {
    return error instanceof ApiError ? error.status : error;
  }
};
const changed = (change: (query: URLSearchParams) => void) => {
  const query = new URLSearchParams(put.searchParams);
  change(query);
  return query;
};

test("[contract 9] an unchanged signed address is accepted and holds the declared values", () => {
  expect(put.origin + put.pathname).toBe(`https://rtc.example.com/v1/storage/${file.id}`);
  expect(signer.check("PUT", file.id, put.searchParams)).toEqual({
    method: "PUT",
    id: file.id,
    size: 1000,
    type: "image/png",
    expiresAt: clock.now() + 900_000,
  });
});

test("[contract 9] a signed address with another method, id, size, type, expiry or signature is refused", () => {
  expect(refused("GET", file.id, put.searchParams)).toBe(403);
  expect(refused("PUT", "att_0123456789abcdefghijABCE", put.searchParams)).toBe(403);
  const expires = Number(put.searchParams.get("expires"));
  for (const [name, value] of [
    ["size", "1001"],
    ["size", "1e3"],
    ["size", "01000"],
    ["size", "1000.0"],
    ["size", " 1000"],
    ["size", ""],
    ["type", "text/html"],
    ["type", "image/PNG"],
    ["type", ""],
    ["expires", String(expires + 1)],
    ["expires", String(expires - 1)],
    ["expires", "NaN"],
    ["expires", "Infinity"],
    ["signature", "0".repeat(64)],
    ["signature", ""],
    ["signature", (put.searchParams.get("signature") ?? "").toUpperCase()],
    ["signature", `${put.searchParams.get("signature")}0`],
  ] as const) {
    expect({
      name,
      value,
      status: refused(
        "PUT",
        file.id,
        changed((query) => query.set(name, value)),
      ),
    }).toEqual({
      name,
      value,
      status: 403,
    });
  }
});

test("[contract 9] a signed address with a missing, repeated or additional parameter is refused", () => {
  for (const name of ["size", "type", "expires", "signature"]) {
    expect(
      refused(
        "PUT",
        file.id,
        changed((query) => query.delete(name)),
      ),
    ).toBe(403);
    expect(
      refused(
        "PUT",
        file.id,
        changed((query) => query.append(name, query.get(name) ?? "")),
      ),
    ).toBe(403);
  }
  expect(
    refused(
      "PUT",
      file.id,
      changed((query) => query.set("filename", "x")),
    ),
  ).toBe(403);
});

test("[contract 9] a signed address expires to the millisecond", () => {
  clock.advance(899_999);
  expect(refused("PUT", file.id, put.searchParams)).toBe("accepted");
  clock.advance(1);
  expect(refused("PUT", file.id, put.searchParams)).toBe(403);
  clock.advance(-900_000);
});

test("[contract 9] a signature of another installation is refused", () => {
  const other = createUrlSigner(createKeyring("b".repeat(32)), clock.now);
  expect(refused("PUT", file.id, put.searchParams, other)).toBe(403);
});
