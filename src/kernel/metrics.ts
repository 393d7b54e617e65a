import type { MetricObjectWithValues, MetricValue } from "prom-client";
// File by file: the package as a whole brings an HTTP client and OpenTelemetry's API along, to every start.
import Counter from "prom-client/lib/counter.js";
import Gauge from "prom-client/lib/gauge.js";
import Histogram from "prom-client/lib/histogram.js";
import Registry from "prom-client/lib/registry.js";
import { VERSION } from "./version.ts";

/** One registry per server, so that two servers in one process (tests) do not share figures. */
export type Metrics = {
  registry: Registry;
  counter(name: string, help: string, labels?: string[]): Counter;
  gauge(name: string, help: string, labels?: string[]): Gauge;
  /** A gauge that is read when it is scraped. */
  gaugeOf(name: string, help: string, read: () => number | null): void;
  /** Gauges that one question answers; asked once a scrape, and absent when it fails. */
  gaugesOf(help: Record<string, string>, read: () => Promise<Record<string, number | null>>): void;
  /** One figure for each value of a label; asked at every scrape, and absent when that fails. */
  gaugesBy(name: string, help: string, label: string, read: () => Promise<Record<string, number>>): void;
  histogram(name: string, help: string, buckets: number[], labels?: string[]): Histogram;
};

/** Gauges of one scrape are collected within this. */
const SAME_SCRAPE_MS = 500;

/** Tells of the process from the first scrape on: to begin with it, prom-client has Bun collect and count its whole heap. */
class ProcessRegistry extends Registry {
  #tellsOfProcess: Promise<void> | null = null;

  override async metrics(): Promise<string> {
    await this.#tellOfProcess();
    return super.metrics();
  }

  override async getMetricsAsJSON(): Promise<MetricObjectWithValues<MetricValue<string>>[]> {
    await this.#tellOfProcess();
    return super.getMetricsAsJSON();
  }

  #tellOfProcess(): Promise<void> {
    this.#tellsOfProcess ??= import("prom-client/lib/defaultMetrics.js").then(({ default: collect }) =>
      collect({ register: this }),
    );
    return this.#tellsOfProcess;
  }
}

export function createMetrics(): Metrics {
  const registry = new ProcessRegistry();
  const registers = [registry];
  const build = { name: "stoa_build_info", help: "Always 1; the label names the version.", labelNames: ["version"] };
  new Gauge({ ...build, registers }).set({ version: VERSION }, 1);
  return {
    registry,
    counter: (name, help, labelNames = []) => new Counter({ name, help, labelNames, registers }),
    gauge: (name, help, labelNames = []) => new Gauge({ name, help, labelNames, registers }),
    gaugeOf(name, help, read) {
      new Gauge({
        name,
        help,
        registers,
        collect() {
          const value = read();
          if (value === null) this.remove();
          else this.set(value);
        },
      });
    },
    gaugesOf(help, read) {
      let asked: { at: number; answer: Promise<Record<string, number | null>> } | null = null;
      const ask = () => {
        const at = performance.now();
        if (asked === null || at - asked.at > SAME_SCRAPE_MS) asked = { at, answer: read().catch(() => ({})) };
        return asked.answer;
      };
      for (const [name, text] of Object.entries(help)) {
        new Gauge({
          name,
          help: text,
          registers,
          async collect() {
            const value = (await ask())[name] ?? null;
            if (value === null) this.remove();
            else this.set(value);
          },
        });
      }
    },
    gaugesBy(name, help, label, read) {
      new Gauge({
        name,
        help,
        labelNames: [label],
        registers,
        async collect() {
          const figures = await read().catch(() => ({}));
          this.reset();
          for (const [value, figure] of Object.entries(figures)) this.set({ [label]: value }, figure);
        },
      });
    },
    histogram: (name, help, buckets, labelNames = []) => new Histogram({ name, help, buckets, labelNames, registers }),
  };
}
