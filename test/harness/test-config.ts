import { type Config, loadConfig } from "../../src/kernel/config/index.ts";

/**
 * The defaults on free loopback ports with a silent log and one media worker, in tests without a warm-up, and the validated
 * overrides of the test.
 */
export function testConfig(overrides: Partial<Config> = {}): Config {
  const { OAUTH, ...flags } = overrides;
  const { config } = loadConfig({
    flags: {
      HOST: "127.0.0.1",
      PORT: 0,
      MEDIA_UDP_PORT: 0,
      MEDIA_WORKERS: 1,
      MEDIA_WARM_UP: process.env.NODE_ENV !== "test",
      PUBLIC_IP: ["127.0.0.1"],
      LOG_LEVEL: "silent",
      ...flags,
    },
  });
  return OAUTH === undefined ? config : { ...config, OAUTH };
}
