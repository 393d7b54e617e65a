import { expect, test } from "bun:test";
import { stoa } from "./stoa.ts";

test("[11] the manual prints one chapter of the operator's part, or all of them", async () => {
  const firewall = await stoa(["manual", "firewall"]);
  expect(firewall.code).toBe(0);
  expect(firewall.out).toStartWith("### Firewall\n");
  expect(firewall.out).toContain("MEDIA_UDP_PORT");
  expect(firewall.out).not.toContain("### TLS and proxies");

  const { out: all } = await stoa(["manual"]);
  for (const name of ["vps", "firewall", "proxy", "backup", "upgrade", "sizing", "troubleshooting"]) {
    const { out: one } = await stoa(["manual", name]);
    expect(one.length).toBeGreaterThan(100);
    expect(all).toContain(one.trim());
  }
  expect(all).not.toContain("<!--");
  expect(all).not.toContain("## Browser SDK");
  expect((await stoa(["manual", "cooking"])).code).toBe(2);
  expect((await stoa(["help"])).out).toContain("manual");
}, 30_000);
