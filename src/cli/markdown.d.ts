declare module "*.md" {
  const text: string;
  // biome-ignore lint/style/noDefaultExport: a file imported as text has no other name
  export default text;
}
