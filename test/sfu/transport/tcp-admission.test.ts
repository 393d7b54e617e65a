import { describe, expect, test } from "bun:test";
import { MAX_CONNECTIONS, MAX_UNPROVEN_PER_ADDRESS, TcpAdmission } from "../../../src/sfu/transport/tcp-admission.ts";

type Fake = { address: string; authenticated: boolean; closed: boolean; close(): void };

function fake(address: string, authenticated = false): Fake {
  return {
    address,
    authenticated,
    closed: false,
    close() {
      this.closed = true;
    },
  };
}

describe("the limits of TCP connections to a media port", () => {
  test("idle connections from many addresses do not deny the port to new clients", () => {
    const admission = new TcpAdmission<Fake>();
    const idle = Array.from({ length: MAX_CONNECTIONS }, (_, i) => fake(`192.0.2.${i % 200}`));
    for (const one of idle) expect(admission.admit(one)).toBe(true);
    const honest = fake("203.0.113.1");
    expect(admission.admit(honest)).toBe(true);
    expect(idle.map(({ closed }) => closed)).toEqual(idle.map((_, i) => i === 0));
    expect(admission.size).toBe(MAX_CONNECTIONS);
  });

  test("an address has only a few unproven connections, however many it opens", () => {
    const admission = new TcpAdmission<Fake>();
    const other = fake("203.0.113.1");
    admission.admit(other);
    for (let i = 0; i < 10_000; i += 1) expect(admission.admit(fake("192.0.2.1"))).toBe(true);
    expect(admission.size).toBe(MAX_UNPROVEN_PER_ADDRESS + 1);
    expect(other.closed).toBe(false);
  });

  test("all addresses of an IPv6 /64 count as one", () => {
    const admission = new TcpAdmission<Fake>();
    for (let i = 0; i < 100; i += 1) admission.admit(fake(`2001:db8:1:2::${i.toString(16)}`));
    expect(admission.size).toBe(MAX_UNPROVEN_PER_ADDRESS);
    admission.admit(fake("2001:db8:1:3::1"));
    expect(admission.size).toBe(MAX_UNPROVEN_PER_ADDRESS + 1);
    for (let i = 0; i < 100; i += 1) admission.admit(fake(`::ffff:192.0.2.${i}`));
    expect(admission.size).toBe(MAX_UNPROVEN_PER_ADDRESS + 101);
  });

  test("authenticated connections are never closed for new ones, and a port full of them admits no more", () => {
    const admission = new TcpAdmission<Fake>();
    const proven = Array.from({ length: MAX_CONNECTIONS }, (_, i) => fake(`192.0.2.${i % 200}`, true));
    for (const one of proven) admission.admit(one);
    expect(admission.admit(fake("203.0.113.1"))).toBe(false);
    expect(proven.some(({ closed }) => closed)).toBe(false);
  });

  test("a connection no longer counts as unproven once it has sent a valid connectivity check", () => {
    const admission = new TcpAdmission<Fake>();
    const office = Array.from({ length: 2 * MAX_UNPROVEN_PER_ADDRESS }, () => fake("192.0.2.1"));
    for (const one of office) {
      admission.admit(one);
      one.authenticated = true;
    }
    expect(office.some(({ closed }) => closed)).toBe(false);
    for (let i = 0; i < 10_000; i += 1) admission.admit(fake("192.0.2.1"));
    expect(office.some(({ closed }) => closed)).toBe(false);
    expect(admission.size).toBe(3 * MAX_UNPROVEN_PER_ADDRESS);
  });

  test("an address has a limited share of the port, and a closed connection frees its place", () => {
    const admission = new TcpAdmission<Fake>();
    const office = Array.from({ length: 500 }, () => fake("192.0.2.1", true));
    for (const one of office) expect(admission.admit(one)).toBe(true);
    expect(admission.admit(fake("192.0.2.1"))).toBe(false);
    expect(admission.admit(fake("192.0.2.2"))).toBe(true);
    for (const one of office.slice(0, 2)) admission.forget(one);
    // Twice is once.
    for (const one of office.slice(0, 2)) admission.forget(one);
    expect(admission.admit(fake("192.0.2.1"))).toBe(true);
    expect(admission.admit(fake("192.0.2.1", true))).toBe(true);
    expect(admission.size).toBe(501);
  });

  test("[17] when thousands of connections arrive together, each one is admitted without a search through all others", () => {
    const admission = new TcpAdmission<Fake>();
    let looks = 0;
    for (let i = 0; i < 6_000; i += 1) {
      const one = fake(`192.0.2.${i % 3}`);
      Object.defineProperty(one, "address", {
        get() {
          looks++;
          return `192.0.2.${i % 3}`;
        },
      });
      admission.admit(one);
    }
    expect(looks).toBe(6_000);
  });
});
