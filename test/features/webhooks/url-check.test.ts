import { expect, test } from "bun:test";
import { loopbackAllowed, refusalOf } from "../../../src/features/webhooks/url-check.ts";
import { testConfig } from "../../harness/test-config.ts";

const HOSTILE_EVERYWHERE = [
  // These are not web addresses.
  "",
  "example.com/hook",
  "//example.com/hook",
  "ftp://example.com/hook",
  "file:///etc/passwd",
  "gopher://example.com/",
  "javascript:alert(1)",
  "data:text/plain,x",
  "ws://example.com/hook",
  "unix:///var/run/docker.sock",
  "https://",
  "https://example.com:99999/",
  "https://1.2.3.256/",
  "https://[fe80::1%25eth0]/",
  // These contain a user name or password.
  "https://user@example.com/hook",
  "https://user:password@example.com/hook",
  "https://example.com@evil.example.org/",
  "https://:secret@example.com/",
  // Private networks.
  "https://10.0.0.1/",
  "https://10.255.255.255:8443/hook",
  "https://172.16.0.1/",
  "https://172.31.255.255/",
  "https://192.168.1.1/",
  "https://[fc00::1]/",
  "https://[fd12:3456:789a::1]/",
  "https://[::ffff:10.0.0.1]/",
  "https://[::ffff:c0a8:101]/",
  "https://0x0a000001/",
  "https://167772161/",
  "https://012.0.0.1/",
  "https://10.1/",
  "https://192.168.257/",
  "https://①⓪.⓪.⓪.①/",
  // Carrier-grade NAT.
  "https://100.64.0.1/",
  "https://100.127.255.255/",
  // Link-local addresses, at which clouds serve instance metadata.
  "https://169.254.169.254/latest/meta-data/",
  "https://169.254.0.1/",
  "https://0xa9fea9fe/",
  "https://2852039166/",
  "https://0251.0376.0251.0376/",
  "https://[fe80::1]/",
  "https://[::ffff:169.254.169.254]/",
  "https://[::ffff:a9fe:a9fe]/",
  "https://[fec0::1]/",
  // Unspecified, broadcast and multicast addresses.
  "https://0.0.0.0/",
  "https://0/",
  "https://[::]/",
  "https://224.0.0.1/",
  "https://239.255.255.255/",
  "https://[ff02::1]/",
  "https://255.255.255.255/",
  "https://240.0.0.1/",
  "https://192.0.0.1/",
  "https://[100::1]/",
  // Ranges for documentation and benchmarks.
  "https://192.0.2.1/",
  "https://198.51.100.7/",
  "https://203.0.113.9/",
  "https://[2001:db8::1]/",
  "https://198.18.0.1/",
  "https://198.19.255.255/",
  "https://[2001:2::1]/",
  // IPv6 addresses that embed an IPv4 address.
  "https://[64:ff9b::a00:1]/",
  "https://[64:ff9b:1::1]/",
  "https://[2002:7f00:1::]/",
  "https://[2002:a00:1::]/",
  "https://[2001::1]/",
  "https://[::7f00:1]/",
  "https://[::10.0.0.1]/",
  "https://192.88.99.1/",
  "https://[::ffff:0:127.0.0.1]/",
  // Names that resolve only inside a network.
  "https://intranet/",
  "https://db/hook",
  "https://printer.local/",
  "https://PRINTER.LOCAL/",
  "https://printer.local./",
  "https://metadata.google.internal/",
  "https://metadata.google.internal./computeMetadata",
  "https://api.internal/",
  "https://app.localhost/",
  "https://app.localhost./",
  "http://app.localhost/",
  "https://a..example.com/",
  "https://.example.com/",
];

const REFUSED_IN_PRODUCTION = [
  "http://example.com/hook",
  "http://203.0.113.9/",
  "http://8.8.8.8/",
  "http://localhost/",
  "https://localhost/",
  "https://localhost./",
  "https://LOCALHOST:8443/hook",
  "http://127.0.0.1:3000/hook",
  "https://127.0.0.1/",
  "https://127.1/",
  "https://127.255.255.254/",
  "https://2130706433/",
  "https://0x7f000001/",
  "https://0x7f.1/",
  "https://0177.0.0.1/",
  "https://017700000001/",
  "https://[::1]/",
  "https://[0:0:0:0:0:0:0:1]/",
  "https://[::ffff:127.0.0.1]/",
  "https://[::ffff:7f00:1]/",
];

const GOOD = [
  "https://example.com",
  "https://example.com/",
  "https://example.com/webhooks/stoa?tenant=7",
  "https://example.com:8443/hook",
  "https://EXAMPLE.com/Hook",
  "https://example.com./hook",
  "https://hooks.example.co.uk/a/b/c",
  "https://a-b.example.com/",
  "https://xn--e1afmkfd.xn--p1ai/hook",
  "https://пример.рф/hook",
  "https://localhost.example.com/",
  "https://internal.example.com/",
  "https://local.example.com/",
  "https://10.0.0.1.example.com/",
  "https://8.8.8.8/hook",
  "https://1.1.1.1:8443/",
  "https://9.255.255.255/",
  "https://11.0.0.1/",
  "https://172.15.255.255/",
  "https://172.32.0.1/",
  "https://100.63.255.255/",
  "https://100.128.0.1/",
  "https://169.253.255.255/",
  "https://[2606:4700:4700::1111]/",
  "https://[2a00:1450:4001:81b::200e]:8443/hook",
  "https://[::ffff:8.8.8.8]/",
];

test("the tables of this test have at least sixty refused and twenty accepted URLs", () => {
  expect(HOSTILE_EVERYWHERE.length).toBeGreaterThanOrEqual(60);
  expect(GOOD.length).toBeGreaterThanOrEqual(20);
});

for (const url of HOSTILE_EVERYWHERE) {
  test(`[4.7] refused in both environments: ${url}`, () => {
    expect(refusalOf(url, "PRODUCTION", false)).toBeString();
    expect(refusalOf(url, "DEVELOPMENT", false)).toBeString();
  });
}

for (const url of REFUSED_IN_PRODUCTION) {
  test(`[4.7] refused in production: ${url}`, () => {
    expect(refusalOf(url, "PRODUCTION", false)).toBeString();
  });
}

for (const url of GOOD) {
  test(`[4.7] accepted in both environments: ${url}`, () => {
    expect(refusalOf(url, "PRODUCTION", false)).toBeNull();
    expect(refusalOf(url, "DEVELOPMENT", false)).toBeNull();
  });
}

test("[4.7] outside production loopback is accepted, by http too, and nothing else by http", () => {
  for (const url of ["http://localhost:3000/hook", "http://127.0.0.1/", "http://[::1]:8080/", "https://localhost/"]) {
    expect(refusalOf(url, "DEVELOPMENT", false)).toBeNull();
  }
  for (const url of ["http://example.com/", "http://8.8.8.8/", "http://[2606:4700::1]/"]) {
    expect(refusalOf(url, "DEVELOPMENT", false)).toContain("https");
  }
});

test("[4.7] an operator may allow private targets, by http too; public ones still need https", () => {
  const inside = [
    "http://10.0.0.1/",
    "https://192.168.1.1/",
    "http://intranet/",
    "http://127.0.0.1/",
    "https://db.internal/",
  ];
  for (const url of inside) {
    expect(refusalOf(url, "PRODUCTION", true)).toBeNull();
    expect(refusalOf(url, "DEVELOPMENT", true)).toBeNull();
  }
  const never = [
    "http://example.com/",
    "https://169.254.169.254/",
    "https://0.0.0.0/",
    "https://u:p@10.0.0.1/",
    "ftp://10.0.0.1/",
  ];
  for (const url of never) expect(refusalOf(url, "PRODUCTION", true)).toBeString();
});

test("[16] loopback is refused as soon as other machines can reach the server, even through its TLS port alone", () => {
  expect(loopbackAllowed(testConfig({ HOST: "127.0.0.1" }))).toBe(true);
  expect(loopbackAllowed(testConfig({ HOST: "0.0.0.0" }))).toBe(false);
  expect(loopbackAllowed(testConfig({ HOST: "127.0.0.1", DOMAIN: "rtc.example.com" }))).toBe(false);
});
