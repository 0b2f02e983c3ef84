// What the build makes.

declare module "*.css";

declare module "licences" {
  const libraries: { name: string; version: string; licence: string; text: string }[];
  export default libraries;
}
