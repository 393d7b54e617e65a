/** The order matters: each user agent also contains the names of the browsers after it. */
const BROWSERS: [name: string, version: RegExp][] = [
  ["Edge", /\bEdgA?\/(\d+)/],
  ["Opera", /\bOPR\/(\d+)/],
  ["Samsung Internet", /\bSamsungBrowser\/(\d+)/],
  ["Firefox", /\b(?:Firefox|FxiOS)\/(\d+)/],
  ["Chrome", /\b(?:Headless)?(?:Chrome|CriOS)\/(\d+)/],
  ["Safari", /\bVersion\/(\d+)\S* (?:Mobile\/\S+ )?Safari\//],
];
const SYSTEMS: [name: string, mark: RegExp][] = [
  ["iPhone", /\biPhone\b/],
  ["iPad", /\biPad\b/],
  ["Android", /\bAndroid\b/],
  ["Windows", /\bWindows\b/],
  ["macOS", /\bMac OS X\b/],
  ["Linux", /\bLinux\b/],
];

/** For example `Chrome 140 on Windows`; an unknown user agent is returned unchanged. */
export function browserName(userAgent: string): string {
  for (const [name, version] of BROWSERS) {
    const number = version.exec(userAgent)?.[1];
    if (number === undefined) continue;
    const system = SYSTEMS.find(([, mark]) => mark.test(userAgent))?.[0];
    return `${name} ${number}${system === undefined ? "" : ` on ${system}`}`;
  }
  return userAgent;
}

/** The browser's name, with the full user agent on hover. */
export function BrowserName({ userAgent }: { userAgent: string | null }) {
  if (!userAgent) return <span class="quiet">unknown</span>;
  return <span title={userAgent}>{browserName(userAgent)}</span>;
}
