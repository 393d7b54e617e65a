import { type Config, loadConfig } from "../../src/kernel/config/index.ts";

/** The defaults on free loopback ports with a silent log and one media worker, and the test's validated overrides. */
export function testConfig(overrides: Partial<Config> = {}): Config {
  const { OAUTH, ...flags } = overrides;
  const { config } = loadConfig({
    flags: {
      HOST: "127.0.0.1",
      PORT: 0,
      MEDIA_UDP_PORT: 0,
      MEDIA_WORKERS: 1,
      PUBLIC_IP: ["127.0.0.1"],
      LOG_LEVEL: "silent",
      ...flags,
    },
  });
  return OAUTH === undefined ? config : { ...config, OAUTH };
}
