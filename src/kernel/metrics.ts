import type { MetricObjectWithValues, MetricValue } from "prom-client";
// The files are imported one by one: the whole package would load an HTTP client and OpenTelemetry's API at every
// start.
import Counter from "prom-client/lib/counter.js";
import Gauge from "prom-client/lib/gauge.js";
import Histogram from "prom-client/lib/histogram.js";
import Registry from "prom-client/lib/registry.js";
import { VERSION } from "./version.ts";

/** What a gauge means, and its value in the source; null while it has none. */
export type GaugeOf<Source> = [help: string, value: (source: Source) => number | null];

/** One registry per server, so that two servers in one process (tests) do not share metrics. */
export type Metrics = {
  registry: Registry;
  counter(name: string, help: string, labels?: string[]): Counter;
  gauge(name: string, help: string, labels?: string[]): Gauge;
  gaugeOf(name: string, help: string, read: () => number | null): void;
  /**
   * Gauges of one source, which is read once per scrape; they are absent when that fails. A name that ends in `_total`
   * is a counter, as in Prometheus's conventions.
   */
  gaugesOf<Source>(gauges: Record<string, GaugeOf<Source>>, read: () => Promise<Source>): void;
  /** One value for each label value, read at every scrape; absent when the read fails. */
  gaugesBy(name: string, help: string, label: string, read: () => Promise<Record<string, number>>): void;
  histogram(name: string, help: string, buckets: number[], labels?: string[]): Histogram;
};

/** All gauges of one scrape are collected within this time. */
const SAME_SCRAPE_MS = 500;

/** A total that is counted elsewhere is set again at every scrape: removed, then increased by the whole count. */
function kindOf(name: string): typeof Gauge {
  return name.endsWith("_total") ? (Counter as unknown as typeof Gauge) : Gauge;
}

/** Heap spaces are V8's. In Bun, reading them walks the whole heap, 50 ms for 300,000 objects, and finds none. */
const HEAP_SPACES = ["total", "used", "available"].map((kind) => `nodejs_heap_space_size_${kind}_bytes`);

/** Adds process metrics with the first scrape, because registering them walks the heap once. */
class ProcessRegistry extends Registry {
  #processMetrics: Promise<void> | null = null;

  override async metrics(): Promise<string> {
    await this.#addProcessMetrics();
    return super.metrics();
  }

  override async getMetricsAsJSON(): Promise<MetricObjectWithValues<MetricValue<string>>[]> {
    await this.#addProcessMetrics();
    return super.getMetricsAsJSON();
  }

  #addProcessMetrics(): Promise<void> {
    this.#processMetrics ??= import("prom-client/lib/defaultMetrics.js").then(({ default: collect }) => {
      collect({ register: this });
      for (const name of HEAP_SPACES) this.removeSingleMetric(name);
    });
    return this.#processMetrics;
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
    gaugesOf(gauges, read) {
      const named = Object.entries(gauges);
      let last: { at: number; values: Promise<Map<string, number | null>> } | null = null;
      const readAll = async () => {
        const source = await read();
        return new Map(named.map(([name, [, valueIn]]) => [name, valueIn(source)]));
      };
      const readOnce = () => {
        const at = performance.now();
        if (last === null || at - last.at > SAME_SCRAPE_MS) last = { at, values: readAll().catch(() => new Map()) };
        return last.values;
      };
      for (const [name, [help]] of named) {
        new (kindOf(name))({
          name,
          help,
          registers,
          async collect() {
            const value = (await readOnce()).get(name) ?? null;
            this.remove();
            if (value !== null) this.inc(value);
          },
        });
      }
    },
    gaugesBy(name, help, label, read) {
      new (kindOf(name))({
        name,
        help,
        labelNames: [label],
        registers,
        async collect() {
          const values = await read().catch(() => ({}));
          this.reset();
          for (const [labelValue, value] of Object.entries(values)) this.inc({ [label]: labelValue }, value);
        },
      });
    },
    histogram: (name, help, buckets, labelNames = []) => new Histogram({ name, help, buckets, labelNames, registers }),
  };
}
